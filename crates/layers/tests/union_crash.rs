//! A union whose process ends half-way through an operation, before any of its system calls: the next union of the same
//! branches shows the tree from before the operation or the one from after it, and goes on from there.
//!
//! The process is killed before the first system call of the operation that may change something, in another run before the
//! second, and so on until the operation ends by itself. Where something was left unfinished, the union that comes next is
//! stopped in the same way. `CRASH_EVERY_CALL=1` also stops between calls that change nothing, and every recovery.
//! `CRASH_SCENARIO` picks the scenarios whose names contain it. `CRASH_SHARE=8` stops before one of eight calls only, chosen
//! by `CRASH_SEED`, which is printed.

#[path = "crash/scenarios.rs"]
mod scenarios;
#[path = "crash/scene.rs"]
mod scene;
#[path = "crash/trace.rs"]
mod trace;
#[path = "crash/view.rs"]
mod view;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plyfs_layers::union::{CheckError, CheckOptions, Finding, Problem, check as check_branches};
use scene::{Operation, Scenario, Scene, UnionOptions, perform, perform_from};
use tempfile::TempDir;
use trace::End;
use view::View;
use vnode::{Errno, Result};

/// What the process that is to be stopped finds its task in.
const CHILD_SCENARIO: &str = "CRASH_CHILD_SCENARIO";
const CHILD_DIRECTORY: &str = "CRASH_CHILD_DIRECTORY";
const CHILD_OPTIONS: &str = "CRASH_CHILD_OPTIONS";
/// Set where nothing is done but to begin a union of the branches.
const CHILD_RECOVERS: &str = "CRASH_CHILD_RECOVERS";

const METACOPY: UnionOptions = "metacopy=on";

/// How many calls apart recoveries of a merge are stopped.
const MERGE_CALL_INTERVAL: usize = 64;
/// More system calls than any operation makes.
const MAX_CALLS: usize = 20_000;

#[test]
fn copy_up_is_atomic() {
    check(scenarios::COPY_UP, "");
}

#[test]
fn copy_up_for_others_is_atomic() {
    check(scenarios::COPY_UP, "copyup=const,copyup-owner=77:88,copyup-mode=0644");
    check(scenarios::COPY_UP, "copyup=current");
}

#[test]
fn copy_up_of_attributes_is_atomic() {
    for scenarios in [scenarios::METACOPY, scenarios::COPY_UP, scenarios::RENAME_FILE, scenarios::SNAPSHOT] {
        check(scenarios, METACOPY);
    }
    check(scenarios::METACOPY, "metacopy=on,whiteouts=overlay");
}

#[test]
fn leaving_a_full_branch_is_atomic() {
    if rustix::process::geteuid().is_root() {
        check(scenarios::FULL_BRANCH, "when-full=move");
    } else {
        println!("skipped: a full branch needs root");
    }
}

#[test]
fn rename_of_files_is_atomic() {
    check(scenarios::RENAME_FILE, "");
}

#[test]
fn rename_of_directories_is_atomic() {
    check(scenarios::RENAME_DIRECTORY, "");
}

#[test]
fn removal_is_atomic() {
    check(scenarios::REMOVE, "");
}

#[test]
fn creation_is_atomic() {
    check(scenarios::CREATE, "");
}

#[test]
fn drains_are_atomic() {
    check(scenarios::DRAIN, "");
}

#[test]
fn snapshot_commands_are_atomic() {
    check(scenarios::SNAPSHOT, "");
}

#[test]
fn operations_with_overlayfs_whiteouts_are_atomic() {
    for scenarios in [scenarios::RENAME_FILE, scenarios::RENAME_DIRECTORY, scenarios::REMOVE, scenarios::CREATE] {
        check(scenarios, "whiteouts=overlay");
    }
}

#[test]
fn deletion_from_all_branches_is_atomic() {
    for scenarios in [scenarios::RENAME_FILE, scenarios::RENAME_DIRECTORY, scenarios::REMOVE] {
        check(scenarios, "delete=all");
    }
}

/// Not a test by itself: the process that is stopped.
#[test]
fn child() {
    let (Some(name), Some(directory)) = (std::env::var(CHILD_SCENARIO).ok(), std::env::var_os(CHILD_DIRECTORY)) else {
        return;
    };
    let directory = PathBuf::from(directory);
    let scenario = scenarios::named(&name);
    let options = std::env::var(CHILD_OPTIONS).unwrap();
    let scene = Scene::made(scenario, options.leak(), &directory);
    if std::env::var_os(CHILD_RECOVERS).is_some() {
        trace::begin();
        drop(scene.union());
        trace::end(0);
    }
    let union = scene.union();
    let done = perform_from(&*union, scenario.operation, trace::begin);
    trace::end(i32::from(done.is_err()));
}

fn check(scenarios: &[Scenario], options: UnionOptions) {
    trace::stay_on_one_processor();
    let from_environment = std::env::var("CRASH_SCENARIO").unwrap_or_default();
    assert!(
        scenarios::all().any(|scenario| scenario.name.contains(&from_environment)),
        "CRASH_SCENARIO={from_environment}: there is none"
    );
    let share = CallSample::from_environment();
    let (mut failures, mut recovered) = (Vec::new(), HashSet::new());
    for scenario in scenarios.iter().filter(|scenario| scenario.name.contains(&from_environment)) {
        match ScenarioRun::of(scenario, options).run(share, &mut recovered) {
            Ok(done) => println!("{} {options}: {done}", scenario.name),
            Err(failure) => failures.push(format!("{} {options}: {failure}", scenario.name)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Has the operation done by a union of its own. A process that another test starts has copies of what is open here, and so the
/// locks of a union that has ended, until it is executed.
fn perform_in_child(scene: &Scene<'_>, scenario: &Scenario) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match perform(&*scene.union(), scenario.operation) {
            Err(Errno::EBUSY) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            done => return done,
        }
    }
}

/// A scenario, and what the operation makes of it if nothing stops it.
struct ScenarioRun {
    scenario: &'static Scenario,
    options: UnionOptions,
    /// Which system calls are stopped at.
    counts: fn(libc::c_long) -> bool,
    before: Vec<String>,
    after: Vec<String>,
    /// What it answers when it is done once more, and what it makes then.
    again: Result<()>,
    after_again: Vec<String>,
}

impl ScenarioRun {
    fn of(scenario: &Scenario, options: UnionOptions) -> Self {
        let scenario = scenarios::named(scenario.name);
        let directory = directory();
        let scene = Scene::make(scenario, options, directory.path());
        let before = View::of(&*scene.union());
        perform_in_child(&scene, scenario).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        let after = visible_tree(&scene, options, &before);
        let again = perform_in_child(&scene, scenario);
        let after_again = visible_tree(&scene, options, &before);
        let counts = if tests_every_call() { trace::any } else { trace::changes };
        Self {
            scenario,
            options,
            counts,
            before: without_unstable_lines(before.since(&before), options),
            after,
            again,
            after_again,
        }
    }

    /// Stops the operation everywhere. `recovered` has what was left unfinished when the union after it was stopped too.
    fn run(&self, share: CallSample, recovered: &mut HashSet<Vec<String>>) -> std::result::Result<String, String> {
        let (mut done, mut undone, mut repaired, mut recoveries) = (0, 0, 0, 0);
        for call in share.of(MAX_CALLS - 1, self.scenario.name) {
            let directory = directory();
            let scene = Scene::make(self.scenario, self.options, directory.path());
            let before = View::of(&*scene.union());
            match trace::run(&mut self.child(directory.path()), call, self.counts) {
                End::Killed => {}
                End::Exited { code: 0, .. } => {
                    let stops = done + undone;
                    return Ok(format!(
                        "{stops} stops, undone after {undone}, done after {done}; {recoveries} stops of recoveries, {repaired} repairs"
                    ));
                }
                End::Exited { code, .. } => return Err(format!("the operation fails with {code}")),
            }
            let mut unfinished = scene.unfinished();
            if unfinished.iter().any(|name| name.contains("record")) || tests_every_call() {
                // What is to be done then differs.
                unfinished.push(format!("{} {}", self.scenario.name, self.options));
            }
            if matches!(self.scenario.operation, Operation::Snapshot(..) | Operation::SnapshotOfOpen(..)) {
                // How far a merge has come is not to be seen in the work directory.
                unfinished.push(format!("{} {}", self.scenario.name, call / MERGE_CALL_INTERVAL));
            }
            self.stopped(&scene, &before, call, &mut repaired)
                .map(|is_done| if is_done { done += 1 } else { undone += 1 })
                .map_err(|failure| format!("stopped before call {call}, {failure}"))?;
            let is_first = self.options.is_empty() || self.options == METACOPY || tests_every_call();
            // With other options the same is left, and its recovery was stopped already.
            if is_first && !unfinished.is_empty() && recovered.insert(unfinished) {
                recoveries += self
                    .stop_recoveries(share, call)
                    .map_err(|failure| format!("stopped before call {call}, then when it recovered {failure}"))?;
            }
        }
        Err(format!("more than {MAX_CALLS} system calls"))
    }

    /// Looks at branches whose union was stopped: whether the operation was done.
    fn stopped(
        &self,
        scene: &Scene<'_>,
        before: &View,
        call: usize,
        repaired: &mut usize,
    ) -> std::result::Result<bool, String> {
        if call.is_multiple_of(2) {
            // The check finds what the next union would, and does the same.
            *repaired += repair(scene, |_| true)?;
        }
        let is_done = self.is_done(scene, before)?;
        // Once a union has been there, what is found is in nobody's way.
        *repaired += repair(scene, |problem| {
            use Problem::{BesideWhiteout, DirectoryBesideWhiteout, MovedFile, OrphanedLink, TwoWhiteouts};
            matches!(problem, BesideWhiteout | DirectoryBesideWhiteout | TwoWhiteouts | OrphanedLink | MovedFile)
        })?;
        if self.is_done(scene, before)? != is_done && self.before != self.after {
            return Err("changes by a repair".to_owned());
        }
        let (expected, then) = match is_done && self.before != self.after {
            true => (self.again, &self.after_again),
            false => (Ok(()), &self.after),
        };
        let again = perform_in_child(scene, self.scenario);
        // That a snapshot was taken or merged users do not see.
        let is_unseen = matches!(self.scenario.operation, Operation::Snapshot(..) | Operation::SnapshotOfOpen(..))
            && again == self.again;
        if again != expected && !is_unseen {
            return Err(format!("(done: {is_done}), then again: {again:?}, not {expected:?}"));
        }
        let found = visible_tree(scene, self.options, before);
        if found != *then {
            return Err(self.difference("then done again", &found));
        }
        Ok(is_done)
    }

    /// Whether users see the tree after the operation; if not, they see that before it.
    fn is_done(&self, scene: &Scene<'_>, before: &View) -> std::result::Result<bool, String> {
        let found = visible_tree(scene, self.options, before);
        // The operation may change nothing that users see.
        let is_done = found == self.after;
        if is_done || found == self.before { Ok(is_done) } else { Err(self.difference("then", &found)) }
    }

    /// Stops the union that comes after one stopped before this call, too. The answer is how often.
    fn stop_recoveries(&self, share: CallSample, call: usize) -> std::result::Result<usize, String> {
        for (stops, recovery_call) in share.of(MAX_CALLS - 1, self.scenario.name).enumerate() {
            let directory = directory();
            let scene = Scene::make(self.scenario, self.options, directory.path());
            let before = View::of(&*scene.union());
            match trace::run(&mut self.child(directory.path()), call, self.counts) {
                End::Killed => {}
                // It made fewer calls this time, and left nothing unfinished.
                End::Exited { code: 0, .. } => return Ok(stops),
                End::Exited { code, .. } => return Err(format!("the operation fails with {code}")),
            }
            let mut recovery = self.child(directory.path());
            recovery.env(CHILD_RECOVERS, "1");
            if trace::run(&mut recovery, recovery_call, self.counts) != End::Killed {
                return Ok(stops);
            }
            self.is_done(&scene, &before).map_err(|failure| format!("before call {recovery_call}: {failure}"))?;
        }
        Err(format!("more than {MAX_CALLS} system calls"))
    }

    fn difference(&self, when: &str, found: &[String]) -> String {
        let lines = |all: &[String], than: &[String]| {
            let differing = all.iter().filter(|line| !than.contains(line));
            differing.map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
        };
        format!(
            "{when}:\n  of before, not found:\n{}\n  of after, not found:\n{}\n  found, not of before:\n{}\n  found, not of after:\n{}",
            lines(&self.before, found),
            lines(&self.after, found),
            lines(found, &self.before),
            lines(found, &self.after)
        )
    }

    fn child(&self, directory: &Path) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("a test is a program"));
        command.args(["--exact", "child", "--nocapture", "--test-threads=1", "--quiet"]);
        command.env(CHILD_SCENARIO, self.scenario.name).env(CHILD_DIRECTORY, directory);
        command.env(CHILD_OPTIONS, self.options).stdout(Stdio::null());
        command
    }
}

/// What users see now.
fn visible_tree(scene: &Scene<'_>, options: UnionOptions, before: &View) -> Vec<String> {
    without_unstable_lines(View::of(&*scene.union()).since(before), options)
}

/// With other owners of copies, each copy has its own as soon as it is there, and what it is made for comes after that.
fn without_unstable_lines(lines: Vec<String>, options: UnionOptions) -> Vec<String> {
    if !options.starts_with("copyup=") {
        return lines;
    }
    // PATH: [ORIGIN] KIND MODE OWNER …
    let without_rights = |line: String| {
        let (path, object) = line.split_once("] ").expect("a line tells of an object");
        let mut words = object.splitn(4, ' ');
        let (kind, rest) = (words.next().unwrap_or_default(), words.nth(2).unwrap_or_default());
        format!("{path}] {kind} {rest}")
    };
    lines.into_iter().map(without_rights).collect()
}

/// The calls that operations and recoveries are stopped before: all, or one of so many, beginning where the seed says.
#[derive(Clone, Copy, Debug)]
struct CallSample {
    one_of: usize,
    seed: usize,
}

impl CallSample {
    fn from_environment() -> Self {
        let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("the variable is a number"));
        let share = Self {
            one_of: number("CRASH_SHARE").unwrap_or(1),
            seed: number("CRASH_SEED").unwrap_or_else(|| fastrand::usize(..1 << 16)),
        };
        if share.one_of > 1 {
            println!("CRASH_SEED={} CRASH_SHARE={}", share.seed, share.one_of);
        }
        share
    }

    /// The calls, of so many, that are stopped before. `salt` has others chosen for each scenario.
    fn of(self, calls: usize, salt: &str) -> impl Iterator<Item = usize> {
        let salt: usize = salt.bytes().map(usize::from).sum();
        (1..=calls).filter(move |call| (call + self.seed + salt).is_multiple_of(self.one_of))
    }
}

fn tests_every_call() -> bool {
    std::env::var_os("CRASH_EVERY_CALL").is_some()
}

/// Has the check find what is wrong, all of which is to be of this kind, and repair it. The answer is how much that was.
fn repair(scene: &Scene<'_>, expected: impl Fn(&Problem) -> bool) -> std::result::Result<usize, String> {
    let check = |repair| {
        // Threads that ask a slow branch may have it for a moment longer than the union that they ask for.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let (mut findings, options) = (Vec::<Finding>::new(), CheckOptions { repair, idle: false, losses: false });
            match check_branches(scene.branches(), &options, &mut |finding| findings.push(finding)) {
                Ok(()) => return findings,
                Err(CheckError::InUse(_)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => panic!("{error}; {}", current_user()),
            }
        }
    };
    let found = check(false);
    if let Some(finding) = found.iter().find(|finding| !expected(&finding.problem)) {
        return Err(format!("the check finds {finding:?}"));
    }
    let repaired = check(true);
    let left = check(false);
    match repaired.iter().all(|finding| finding.repair == Some(Ok(()))) && left.is_empty() {
        true => Ok(found.len()),
        false => Err(format!("not repaired: {repaired:?}, {left:?}")),
    }
}

/// The threads of this process, and the locks of all: who may be holding a branch.
fn current_user() -> String {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names: Vec<String> =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok()).collect();
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    format!("threads of {}: {names:?}; locks:\n{locks}", std::process::id())
}

/// A scratch directory, in memory if files there can have all attributes: nothing here is about power cuts.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let has_attributes = |directory: &TempDir| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(directory.path(), "user.test", b"", flags).is_ok()
    };
    // This thread has the mask of whoever a base has acted for.
    let mut private = tempfile::Builder::new();
    private.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let fast = private.tempdir_in(memory).ok().filter(has_attributes);
    fast.unwrap_or_else(|| private.tempdir().expect("there is a place for scratch files"))
}
