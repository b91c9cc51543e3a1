//! A union whose process ends half-way through an operation, before any of its system calls: the next union of the same
//! branches shows the tree from before the operation or the one from after it, and goes on from there.
//!
//! The process is killed before the first system call of the operation that may change something, in another run before the
//! second, and so on until the operation ends by itself. `CRASH_EVERY_CALL=1` also stops it between calls that change
//! nothing. `CRASH_SCENARIO` picks the scenarios whose names contain it.

#[path = "crash/scenarios.rs"]
mod scenarios;
#[path = "crash/scene.rs"]
mod scene;
#[path = "crash/trace.rs"]
mod trace;
#[path = "crash/view.rs"]
mod view;

use std::path::{Path, PathBuf};
use std::process::Command;

use scene::{Scenario, Scene, perform, perform_from};
use tempfile::TempDir;
use trace::End;
use view::View;
use vnode::Result;

/// What the process that is to be stopped finds its task in.
const CHILD_SCENARIO: &str = "CRASH_CHILD_SCENARIO";
const CHILD_DIRECTORY: &str = "CRASH_CHILD_DIRECTORY";

/// More system calls than any operation makes.
const CALLS_MAX: usize = 20_000;

#[test]
fn copy_up_is_done_or_undone() {
    check(scenarios::COPY_UP);
}

#[test]
fn rename_of_files_is_done_or_undone() {
    check(scenarios::RENAME_FILE);
}

#[test]
fn rename_of_directories_is_done_or_undone() {
    check(scenarios::RENAME_DIRECTORY);
}

#[test]
fn removal_is_done_or_undone() {
    check(scenarios::REMOVE);
}

#[test]
fn creation_is_done_or_undone() {
    check(scenarios::CREATE);
}

/// Not a test by itself: the process that is stopped.
#[test]
fn child() {
    let (Some(name), Some(directory)) = (std::env::var(CHILD_SCENARIO).ok(), std::env::var_os(CHILD_DIRECTORY)) else {
        return;
    };
    let directory = PathBuf::from(directory);
    let scenario = scenarios::named(&name);
    let union = Scene::made(scenario, &directory).union();
    let done = perform_from(&union, scenario.operation, trace::begin);
    trace::end(i32::from(done.is_err()));
}

fn check(scenarios: &[Scenario]) {
    let chosen = std::env::var("CRASH_SCENARIO").unwrap_or_default();
    let mut failures = Vec::new();
    for scenario in scenarios.iter().filter(|scenario| scenario.name.contains(&chosen)) {
        if let Err(failure) = check_one(scenario) {
            failures.push(format!("{}: {failure}", scenario.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// What an operation makes of a scenario if nothing stops it.
struct Whole {
    before: Vec<String>,
    after: Vec<String>,
    /// What it answers when it is done once more, and what it makes then.
    again: Result<()>,
    after_again: Vec<String>,
}

impl Whole {
    fn of(scenario: &Scenario) -> Self {
        let directory = directory();
        let scene = Scene::make(scenario, directory.path());
        let before = View::of(&scene.union());
        perform(&scene.union(), scenario.operation).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        let after = View::of(&scene.union()).since(&before);
        let again = perform(&scene.union(), scenario.operation);
        let after_again = View::of(&scene.union()).since(&before);
        Self { before: before.since(&before), after, again, after_again }
    }
}

fn check_one(scenario: &Scenario) -> std::result::Result<(), String> {
    let whole = Whole::of(scenario);
    let (mut done, mut undone) = (0, 0);
    let counts = if std::env::var_os("CRASH_EVERY_CALL").is_some() { trace::any } else { trace::changes };
    for call in 1..CALLS_MAX {
        let directory = directory();
        let scene = Scene::make(scenario, directory.path());
        let before = View::of(&scene.union());
        match trace::run(&mut child_of(scenario, directory.path()), call, counts) {
            End::Killed => {}
            End::Exited { code, .. } => {
                assert_eq!(code, 0, "{}: the operation fails", scenario.name);
                println!("{}: {} stops, undone after {undone}, done after {done}", scenario.name, call - 1);
                return Ok(());
            }
        }
        let found = View::of(&scene.union()).since(&before);
        // The operation may change nothing that users see.
        let is_done = found == whole.after;
        if !is_done && found != whole.before {
            return Err(difference(&format!("stopped before call {call}"), &whole, &found));
        }
        if is_done {
            done += 1
        } else {
            undone += 1
        }
        let again = perform(&scene.union(), scenario.operation);
        let (expected, then) = match is_done && whole.before != whole.after {
            true => (whole.again, &whole.after_again),
            false => (Ok(()), &whole.after),
        };
        if again != expected {
            return Err(format!(
                "stopped before call {call} (done: {is_done}), then again: {again:?}, not {expected:?}"
            ));
        }
        let found = View::of(&scene.union()).since(&before);
        if found != *then {
            return Err(difference(&format!("stopped before call {call}, then done again"), &whole, &found));
        }
    }
    Err(format!("more than {CALLS_MAX} system calls"))
}

fn difference(when: &str, whole: &Whole, found: &[String]) -> String {
    let lines = |all: &[String], than: &[String]| {
        let differing = all.iter().filter(|line| !than.contains(line));
        differing.map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
    };
    format!(
        "{when}:\n  of before, not found:\n{}\n  of after, not found:\n{}\n  found, not of before:\n{}\n  found, not of after:\n{}",
        lines(&whole.before, found),
        lines(&whole.after, found),
        lines(found, &whole.before),
        lines(found, &whole.after)
    )
}

fn child_of(scenario: &Scenario, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test is a program"));
    command.args(["--exact", "child", "--nocapture", "--test-threads=1", "--quiet"]);
    command.env(CHILD_SCENARIO, scenario.name).env(CHILD_DIRECTORY, directory);
    command.stdout(std::process::Stdio::null());
    command
}

/// A scratch directory, in memory if files there can have all attributes: nothing here is about power cuts.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let has_attributes = |directory: &TempDir| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(directory.path(), "user.test", b"", flags).is_ok()
    };
    let fast = tempfile::tempdir_in(memory).ok().filter(has_attributes);
    fast.unwrap_or_else(|| tempfile::tempdir().expect("there is a place for scratch files"))
}
