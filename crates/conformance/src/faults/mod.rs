//! Fault injection: each call to the lower file systems of a stack fails in turn. The caller must see the error, the tree must
//! be as before or as after the operation except for bytes that the operation changes, each of which is old or new, and all
//! other data must be unchanged.

mod fixture;
mod operations;
mod stack;

use std::fmt::Write;

use vnode::Errno;

pub use fixture::{Below, Object, State, difference, pattern, state_of};
use fixture::{FaultFixture, is_between};
pub use operations::{OPERATIONS, Operation};
pub use stack::Stack;

/// Storage errors that are injected, in rotation.
const ERRORS: [Errno; 7] =
    [Errno::EIO, Errno::ENOSPC, Errno::EDQUOT, Errno::EMFILE, Errno::ENOMEM, Errno::EINTR, Errno::ESTALE];

/// Moments at which a lower call fails: before it takes effect, or after.
pub const MOMENTS: [&str; 2] = ["error", "late-error"];

/// Errors that a stack may return for an operation that it does not support.
const REFUSALS: [Errno; 4] = [Errno::EOPNOTSUPP, Errno::EXDEV, Errno::EROFS, Errno::EINVAL];

/// The result of an operation without failures.
struct ReferenceRun {
    result: vnode::Result<Vec<u8>>,
    before: State,
    after: State,
    /// Number of calls to each lower file system.
    calls: Vec<u64>,
}

impl ReferenceRun {
    fn of(stack: &dyn Stack, operation: &Operation) -> Result<Self, String> {
        let fixture = FaultFixture::new(stack);
        let before = fixture.state();
        fixture.below.set_all(&[]);
        let result = (operation.run)(&fixture.root);
        let calls = (0..stack.width()).map(|branch| fixture.below.count(branch, "calls")).collect();
        fixture.below.off();
        match result {
            Err(error) if !REFUSALS.contains(&error) => Err(format!("fails by itself: {error:?}")),
            _ => Ok(Self { result, before, after: fixture.state(), calls }),
        }
    }

    /// Returns the problem, if any, with the result of the operation and the state after it, when a lower call failed with this
    /// error.
    fn problem(&self, error: Errno, result: &vnode::Result<Vec<u8>>, state: &State) -> Option<String> {
        match result {
            same if *same == self.result && *state == self.after => None,
            same if *same == self.result => Some(format!("as if nothing failed\n{}", difference(&self.after, state))),
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
    let reference = ReferenceRun::of(stack, operation)?;
    let calls =
        reference.calls.iter().enumerate().flat_map(|(branch, calls)| (1..=*calls).map(move |call| (branch, call)));
    let step = calls.clone().count().div_ceil(most).max(1);
    let (mut problems, mut count) = (String::new(), 0);
    for (branch, call) in calls.skip(operation.name.len() % step).step_by(step) {
        for moment in MOMENTS {
            // Another one first for each operation.
            let error = ERRORS[(count + operation.name.len()) % ERRORS.len()];
            count += 1;
            for problem in
                check_with_fault(stack, operation, &reference, &InjectedFault { branch, call, moment, error })
            {
                let _ = writeln!(problems, "branch {branch}, call {call}, {moment}={error:?}: {problem}");
            }
        }
    }
    if problems.is_empty() { Ok(count) } else { Err(problems) }
}

/// A call that fails.
struct InjectedFault {
    branch: usize,
    call: u64,
    moment: &'static str,
    error: Errno,
}

fn check_with_fault(
    stack: &dyn Stack,
    operation: &Operation,
    reference: &ReferenceRun,
    fault: &InjectedFault,
) -> Vec<String> {
    let fixture = FaultFixture::new(stack);
    let name = fault.error.name().expect("the errors of storage have names");
    fixture.below.set(fault.branch, &[("from", &fault.call.to_string()), ("times", "1"), (fault.moment, name)]);
    let result = (operation.run)(&fixture.root);
    fixture.below.off();
    let state = fixture.state();
    let restarted = fixture.state_of_new_stack();
    let after_restart =
        (restarted != state).then(|| format!("another state after a restart\n{}", difference(&state, &restarted)));
    [reference.problem(fault.error, &result, &state), after_restart].into_iter().flatten().collect()
}

/// Makes each call to the lower file systems fail in turn, and repeats operations that failed without a change. Returns the
/// number of repetitions.
///
/// # Errors
/// The problems, one per line.
pub fn what_failed_can_be_done(stack: &dyn Stack, operation: &Operation) -> Result<usize, String> {
    let reference = ReferenceRun::of(stack, operation)?;
    let calls =
        reference.calls.iter().enumerate().flat_map(|(branch, calls)| (1..=*calls).map(move |call| (branch, call)));
    let (mut problems, mut count) = (String::new(), 0);
    for ((branch, call), moment) in calls.flat_map(|call| MOMENTS.map(|moment| (call, moment))) {
        let fixture = FaultFixture::new(stack);
        fixture.below.set(branch, &[("from", &call.to_string()), ("times", "1"), (moment, "EIO")]);
        let result = (operation.run)(&fixture.root);
        fixture.below.off();
        if result.is_ok() || fixture.state() != reference.before {
            continue;
        }
        count += 1;
        let (repeated, state) = ((operation.run)(&fixture.root), fixture.state());
        if repeated != reference.result || state != reference.after {
            let difference = difference(&reference.after, &state);
            let _ = writeln!(problems, "branch {branch}, call {call}, {moment}: {repeated:?}\n{difference}");
        }
    }
    if problems.is_empty() { Ok(count) } else { Err(problems) }
}

/// Makes the lower file systems read, write and copy only a few bytes at a time, which must not be visible.
///
/// # Errors
/// The problems, one per line.
pub fn counts_are_short(stack: &dyn Stack, operation: &Operation) -> Result<(), String> {
    let reference = ReferenceRun::of(stack, operation)?;
    for bytes in ["1", "7", "4095"] {
        let fixture = FaultFixture::new(stack);
        fixture.below.set_all(&[("operations", "read:write:copy_file_range"), ("short", bytes)]);
        let result = (operation.run)(&fixture.root);
        fixture.below.off();
        let difference = difference(&reference.after, &fixture.state());
        if result != reference.result || !difference.is_empty() {
            return Err(format!("with {bytes} bytes at a time: {:?}\n{difference}", result.map(|result| result.len())));
        }
    }
    Ok(())
}

/// Makes the lower file systems return no data on reads: missing data must not be taken for zeros.
///
/// # Errors
/// The problems, one per line.
pub fn no_data_come(stack: &dyn Stack, operation: &Operation) -> Result<(), String> {
    let reference = ReferenceRun::of(stack, operation)?;
    let fixture = FaultFixture::new(stack);
    fixture.below.set_all(&[("operations", "read"), ("short", "0")]);
    let result = (operation.run)(&fixture.root);
    fixture.below.off();
    let state = fixture.state();
    match is_between(&state, &reference.before, &reference.after) {
        true => Ok(()),
        false => Err(format!("{:?}\n{}", result.map(|result| result.len()), difference(&reference.before, &state))),
    }
}
