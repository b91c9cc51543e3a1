//! Every call to the file systems below a layer fails in turn: the caller sees the error, the tree is as it was before the
//! operation or as it is after it but for bytes that the operation changes, each of which is old or new, and all other data
//! are what they were.

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod operations;
mod scene;

use operations::{NamedOperation, OPERATIONS};
use scene::{STACKS, Scene, Stack, State, difference, is_between};
use vnode::{Errno, Result};

/// The errors of storage, each in its turn.
const ERRORS: [Errno; 7] =
    [Errno::EIO, Errno::ENOSPC, Errno::EDQUOT, Errno::EMFILE, Errno::ENOMEM, Errno::EINTR, Errno::ESTALE];

/// How a call below fails: nothing is done, or all is done.
const MOMENTS: [&str; 2] = ["error", "late-error"];

/// Every stack with every operation that it has.
fn pairs() -> impl Iterator<Item = (&'static Stack, &'static NamedOperation)> {
    let operations = |stack: &'static Stack| {
        OPERATIONS
            .iter()
            .filter(|operation| !stack.lacks.contains(&operation.name))
            .map(move |operation| (stack, operation))
    };
    STACKS.iter().flat_map(operations)
}

/// An operation where nothing fails.
struct Whole {
    answer: Result<Vec<u8>>,
    before: State,
    after: State,
    /// Number of calls to each file system below.
    calls: Vec<u64>,
}

impl Whole {
    fn of(stack: &'static Stack, operation: &NamedOperation) -> Self {
        let scene = Scene::new(stack);
        let before = scene.state();
        scene.below.set_all(&[]);
        let answer = (operation.run)(&scene.root);
        let calls = (0..stack.branches).map(|branch| scene.below.count(branch, "calls")).collect();
        scene.below.off();
        assert!(answer.is_ok(), "{}: {}: {answer:?}", stack.title, operation.name);
        Self { answer, before, after: scene.state(), calls }
    }

    /// What is wrong with an answer to the operation and the state after it, where a call below failed with this error.
    fn problem(&self, error: Errno, answer: &Result<Vec<u8>>, state: &State) -> Option<String> {
        match answer {
            Ok(_) if *answer != self.answer => Some("another answer".to_owned()),
            Ok(_) if *state != self.after => Some(format!("success\n{}", difference(&self.after, state))),
            Err(other) if *other != error => Some(format!("answers {other:?}")),
            Err(_) if !is_between(state, &self.before, &self.after) => Some(format!(
                "neither before nor after; before:\n{}\n  after:\n{}",
                difference(&self.before, state),
                difference(&self.after, state)
            )),
            _ => None,
        }
    }
}

#[test]
fn an_operation_is_done_or_not_done_when_a_call_below_fails() {
    let (mut problems, mut count) = (Vec::new(), 0);
    for (stack, operation) in pairs() {
        let whole = Whole::of(stack, operation);
        let calls =
            whole.calls.iter().enumerate().flat_map(|(branch, calls)| (1..=*calls).map(move |call| (branch, call)));
        for (branch, call) in calls {
            for moment in MOMENTS {
                count += 1;
                let error = ERRORS[count % ERRORS.len()];
                let scene = Scene::new(stack);
                let name = error.name().expect("the errors of storage have names");
                scene.below.set(branch, &[("from", &call.to_string()), ("times", "1"), (moment, name)]);
                let answer = (operation.run)(&scene.root);
                scene.below.off();
                let state = scene.state();
                let restarted = scene.state_of_new_stack();
                let after_restart = (restarted != state)
                    .then(|| format!("another state after a restart\n{}", difference(&state, &restarted)));
                for problem in [whole.problem(error, &answer, &state), after_restart].into_iter().flatten() {
                    let (title, name) = (stack.title, operation.name);
                    problems
                        .push(format!("{title}: {name}: branch {branch}, call {call}, {moment}={error:?}: {problem}"));
                }
            }
        }
    }
    println!("{count} calls failed in turn");
    assert!(problems.is_empty(), "{} of {count}:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn short_counts_below_are_no_end_of_the_file() {
    for (stack, operation) in pairs() {
        let whole = Whole::of(stack, operation);
        for bytes in ["1", "7", "4095"] {
            let scene = Scene::new(stack);
            scene.below.set_all(&[("operations", "read:write:copy_file_range"), ("short", bytes)]);
            let answer = (operation.run)(&scene.root);
            scene.below.off();
            let context = format!("{}: {} with {bytes} bytes at a time", stack.title, operation.name);
            assert_eq!(answer, whole.answer, "{context}");
            assert_eq!(difference(&whole.after, &scene.state()), "", "{context}");
        }
    }
}

#[test]
fn data_that_do_not_come_are_not_replaced_by_zeros() {
    for (stack, operation) in pairs() {
        let whole = Whole::of(stack, operation);
        let scene = Scene::new(stack);
        scene.below.set_all(&[("operations", "read"), ("short", "0")]);
        let answer = (operation.run)(&scene.root);
        scene.below.off();
        let state = scene.state();
        let context = format!("{}: {}: {:?}", stack.title, operation.name, answer.map(drop));
        assert!(is_between(&state, &whole.before, &whole.after), "{context}\n{}", difference(&whole.before, &state));
    }
}

#[test]
fn a_stopped_operation_goes_on_when_it_is_let() {
    let scene = Scene::new(&STACKS[0]);
    scene.below.set_all(&[("operations", "getattr"), ("stop", "yes")]);
    let root = scene.root.clone();
    let asking = std::thread::spawn(move || root.getattr(&common::root()).map(drop));
    while scene.below.count(0, "stopped") == 0 {
        std::thread::yield_now();
    }
    assert!(!asking.is_finished());
    scene.below.off();
    assert_eq!(asking.join().unwrap(), Ok(()));
    assert_eq!(scene.below.count(0, "stopped"), 0);
}
