//! Fault injection: each call to the lower file systems of a stack fails in turn. The caller must see the error, the tree must
//! be as before or as after the operation except for bytes that the operation changes, each of which is old or new, and all
//! other data must be unchanged.

mod operations;
mod scene;
mod stack;

use std::fmt::Write;

use vnode::Errno;

pub use operations::{OPERATIONS, Operation};
pub use scene::{Below, Object, State, difference, pattern, state_of};
use scene::{Scene, is_between};
pub use stack::Stack;

/// Storage errors that are injected, in rotation.
const ERRORS: [Errno; 7] =
    [Errno::EIO, Errno::ENOSPC, Errno::EDQUOT, Errno::EMFILE, Errno::ENOMEM, Errno::EINTR, Errno::ESTALE];

/// Moments at which a lower call fails: before it takes effect, or after.
pub const MOMENTS: [&str; 2] = ["error", "late-error"];

/// Errors that a stack may return for an operation that it does not support.
const REFUSALS: [Errno; 4] = [Errno::EOPNOTSUPP, Errno::EXDEV, Errno::EROFS, Errno::EINVAL];

/// The result of an operation without failures.
struct Whole {
    answer: vnode::Result<Vec<u8>>,
    before: State,
    after: State,
    /// Number of calls to each lower file system.
    calls: Vec<u64>,
}

impl Whole {
    fn of(stack: &dyn Stack, operation: &Operation) -> Result<Self, String> {
        let scene = Scene::new(stack);
        let before = scene.state();
        scene.below.set_all(&[]);
        let answer = (operation.run)(&scene.root);
        let calls = (0..stack.width()).map(|branch| scene.below.count(branch, "calls")).collect();
        scene.below.off();
        match answer {
            Err(error) if !REFUSALS.contains(&error) => Err(format!("fails by itself: {error:?}")),
            _ => Ok(Self { answer, before, after: scene.state(), calls }),
        }
    }

    /// Returns the problem, if any, with the result of the operation and the state after it, when a lower call failed with this
    /// error.
    fn problem(&self, error: Errno, answer: &vnode::Result<Vec<u8>>, state: &State) -> Option<String> {
        match answer {
            same if *same == self.answer && *state == self.after => None,
            same if *same == self.answer => Some(format!("as if nothing failed\n{}", difference(&self.after, state))),
            Ok(_) => Some("another answer".to_owned()),
            Err(other) if *other != error => Some(format!("answers {other:?}")),
            Err(_) if !is_between(state, &self.before, &self.after) => Some(format!(
                "neither before nor after; before:\n{}\n  after:\n{}",
                difference(&self.before, state),
                difference(&self.after, state)
            )),
            Err(_) => None,
        }
    }
}

/// Makes each call to the lower file systems fail in turn, before and after it takes effect, and returns the number of calls
/// that failed. Of more than `most` calls, a selection is tested.
///
/// # Errors
/// The problems, one per line.
pub fn each_call_fails(stack: &dyn Stack, operation: &Operation, most: usize) -> Result<usize, String> {
    let whole = Whole::of(stack, operation)?;
    let calls = whole.calls.iter().enumerate().flat_map(|(branch, calls)| (1..=*calls).map(move |call| (branch, call)));
    let step = calls.clone().count().div_ceil(most).max(1);
    let (mut problems, mut count) = (String::new(), 0);
    for (branch, call) in calls.skip(operation.name.len() % step).step_by(step) {
        for moment in MOMENTS {
            // Another one first for each operation.
            let error = ERRORS[(count + operation.name.len()) % ERRORS.len()];
            count += 1;
            for problem in fail(stack, operation, &whole, &Failing { branch, call, moment, error }) {
                let _ = writeln!(problems, "branch {branch}, call {call}, {moment}={error:?}: {problem}");
            }
        }
    }
    if problems.is_empty() { Ok(count) } else { Err(problems) }
}

/// A call that fails.
struct Failing {
    branch: usize,
    call: u64,
    moment: &'static str,
    error: Errno,
}

fn fail(stack: &dyn Stack, operation: &Operation, whole: &Whole, failing: &Failing) -> Vec<String> {
    let scene = Scene::new(stack);
    let name = failing.error.name().expect("the errors of storage have names");
    scene.below.set(failing.branch, &[("from", &failing.call.to_string()), ("times", "1"), (failing.moment, name)]);
    let answer = (operation.run)(&scene.root);
    scene.below.off();
    let state = scene.state();
    let restarted = scene.state_of_new_stack();
    let after_restart =
        (restarted != state).then(|| format!("another state after a restart\n{}", difference(&state, &restarted)));
    [whole.problem(failing.error, &answer, &state), after_restart].into_iter().flatten().collect()
}

/// Makes each call to the lower file systems fail in turn, and repeats operations that failed without a change. Returns the
/// number of repetitions.
///
/// # Errors
/// The problems, one per line.
pub fn what_failed_can_be_done(stack: &dyn Stack, operation: &Operation) -> Result<usize, String> {
    let whole = Whole::of(stack, operation)?;
    let calls = whole.calls.iter().enumerate().flat_map(|(branch, calls)| (1..=*calls).map(move |call| (branch, call)));
    let (mut problems, mut count) = (String::new(), 0);
    for ((branch, call), moment) in calls.flat_map(|call| MOMENTS.map(|moment| (call, moment))) {
        let scene = Scene::new(stack);
        scene.below.set(branch, &[("from", &call.to_string()), ("times", "1"), (moment, "EIO")]);
        let answer = (operation.run)(&scene.root);
        scene.below.off();
        if answer.is_ok() || scene.state() != whole.before {
            continue;
        }
        count += 1;
        let (again, state) = ((operation.run)(&scene.root), scene.state());
        if again != whole.answer || state != whole.after {
            let difference = difference(&whole.after, &state);
            let _ = writeln!(problems, "branch {branch}, call {call}, {moment}: {again:?}\n{difference}");
        }
    }
    if problems.is_empty() { Ok(count) } else { Err(problems) }
}

/// Makes the lower file systems read, write and copy only a few bytes at a time, which must not be visible.
///
/// # Errors
/// The problems, one per line.
pub fn counts_are_short(stack: &dyn Stack, operation: &Operation) -> Result<(), String> {
    let whole = Whole::of(stack, operation)?;
    for bytes in ["1", "7", "4095"] {
        let scene = Scene::new(stack);
        scene.below.set_all(&[("operations", "read:write:copy_file_range"), ("short", bytes)]);
        let answer = (operation.run)(&scene.root);
        scene.below.off();
        let difference = difference(&whole.after, &scene.state());
        if answer != whole.answer || !difference.is_empty() {
            return Err(format!("with {bytes} bytes at a time: {:?}\n{difference}", answer.map(|answer| answer.len())));
        }
    }
    Ok(())
}

/// Makes the lower file systems return no data on reads: missing data must not be taken for zeros.
///
/// # Errors
/// The problems, one per line.
pub fn no_data_come(stack: &dyn Stack, operation: &Operation) -> Result<(), String> {
    let whole = Whole::of(stack, operation)?;
    let scene = Scene::new(stack);
    scene.below.set_all(&[("operations", "read"), ("short", "0")]);
    let answer = (operation.run)(&scene.root);
    scene.below.off();
    let state = scene.state();
    match is_between(&state, &whole.before, &whole.after) {
        true => Ok(()),
        false => Err(format!("{:?}\n{}", answer.map(|answer| answer.len()), difference(&whole.before, &state))),
    }
}
