//! A branch that has failed, because its storage, its server or its root is gone: what needs it answers `EIO`, what does not
//! goes on, and it comes back by itself.

mod common;

use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bases::dir::{DirectoryFileSystem, Options};
use frontends::fuse::{Mount, MountOptions, MountPoint, UnmountMode};
use plyfs_layers::BranchMode;
use vnode::{
    ControlError, Cookie, Creation, Errno, FileKind, FileSystemRef, OpenFlags, RenameMode, Result, SetAttributes,
    VnodeRef,
};

use common::unions::{Scene, at, fill, joined_with, list, name, read, server};
use common::{layer, memory};
use conformance::faults::{Below, difference, state_of};

/// How a branch fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Every call answers this.
    Answers(&'static str),
    /// Its root is removed, with all below it.
    RootRemoved,
}

const FAILURES: [Failure; 3] = [Failure::Answers("EIO"), Failure::Answers("ESTALE"), Failure::RootRemoved];

/// For this time a union may believe what it knows of the names in a branch.
const NAME_CACHE_LIFETIME: Duration = Duration::from_millis(25);
/// A failed branch is asked again after this time.
const RECHECK_INTERVAL: Duration = Duration::from_millis(1100);

/// A union of three branches, one of which can fail.
struct FailingUnion {
    scene: Scene,
    told: Option<Below>,
    root: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

/// What the branch that fails has: `hidden` is on its right, `both` also on its left.
const FAILING_PATHS: [&str; 5] = ["own", ".wh.hidden", "merged/own", "merged/.wh.hidden", "only/own"];
const HIGHER_PATHS: [&str; 4] = ["left", "both", "merged/left", "leftmost/file"];
const LOWER_PATHS: [&str; 7] = ["hidden", "right", "both", "left", "merged/hidden", "merged/right", "merged/left"];

impl FailingUnion {
    /// The branch at this place can fail.
    fn at(place: usize, failure: Failure, options: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let (told, own): (_, FileSystemRef) = match failure {
            Failure::Answers(_) => {
                let below = layer("faulty", &[], memory());
                let told = Below::of(vec![below.clone()]);
                told.off();
                (Some(told), below)
            }
            Failure::RootRemoved => {
                (None, Arc::new(DirectoryFileSystem::open(&root, Options::default()).unwrap()) as FileSystemRef)
            }
        };
        let mut others = [memory(), memory()].into_iter();
        let filled = [&HIGHER_PATHS[..], &FAILING_PATHS, &LOWER_PATHS];
        let order: Vec<usize> = if place == 0 { vec![1, 0, 2] } else { vec![0, 1, 2] };
        let branches = order.iter().map(|kind| {
            let branch = if *kind == 1 { own.clone() } else { others.next().unwrap() };
            filled[*kind].iter().for_each(|path| fill(&branch, *kind, path));
            (if *kind == 2 { BranchMode::ReadOnly } else { BranchMode::ReadWrite }, branch)
        });
        let scene = joined_with(options, branches.collect());
        Self { scene, told, root, _directory: directory }
    }

    fn fail(&self, failure: Failure) {
        match failure {
            Failure::Answers(error) => self.told.as_ref().unwrap().set(0, &[("error", error)]),
            Failure::RootRemoved => std::fs::remove_dir_all(&self.root).unwrap(),
        }
        thread::sleep(NAME_CACHE_LIFETIME);
    }

    fn recover(&self) {
        self.told.as_ref().unwrap().off();
        thread::sleep(RECHECK_INTERVAL);
    }

    fn top(&self) -> VnodeRef {
        self.scene.union.root()
    }

    fn branches(&self) -> String {
        self.scene.tell("branches", &[]).unwrap()
    }
}

fn create(directory: &VnodeRef, text: &str) -> Result<()> {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    directory.create(&server(), name(text), &how).map(drop)
}

fn names_of(directory: &VnodeRef) -> Result<Vec<String>> {
    let mut names = Vec::new();
    directory.open_directory(&server())?.read(&server(), Cookie::START, &mut |entry| {
        names.push(String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
        ControlFlow::Continue(())
    })?;
    names.sort();
    Ok(names)
}

/// Vnodes that were found before the branch failed.
struct CachedVnodes {
    top: VnodeRef,
    merged: VnodeRef,
    left: VnodeRef,
    own: VnodeRef,
}

type Operation = (&'static str, fn(&CachedVnodes) -> Result<()>);

/// What needs the branch in the middle.
const DEPENDENT_OPERATIONS: &[Operation] = &[
    ("look up its file", |look_up_vnodes| look_up_vnodes.top.lookup(&server(), name("own")).map(drop)),
    ("look up what it hides", |look_up_vnodes| look_up_vnodes.top.lookup(&server(), name("hidden")).map(drop)),
    ("look up what is on its right", |look_up_vnodes| look_up_vnodes.top.lookup(&server(), name("right")).map(drop)),
    ("look up what nobody has", |look_up_vnodes| look_up_vnodes.top.lookup(&server(), name("absent")).map(drop)),
    ("look up a merged directory", |look_up_vnodes| look_up_vnodes.top.lookup(&server(), name("merged")).map(drop)),
    ("look up what it hides in a merged directory", |look_up_vnodes| {
        look_up_vnodes.merged.lookup(&server(), name("hidden")).map(drop)
    }),
    ("look up its file in a merged directory", |look_up_vnodes| {
        look_up_vnodes.merged.lookup(&server(), name("own")).map(drop)
    }),
    ("list the root", |look_up_vnodes| names_of(&look_up_vnodes.top).map(drop)),
    ("list a merged directory", |look_up_vnodes| names_of(&look_up_vnodes.merged).map(drop)),
    ("create", |look_up_vnodes| create(&look_up_vnodes.top, "new")),
    ("create in a merged directory", |look_up_vnodes| create(&look_up_vnodes.merged, "new")),
    ("create what it hides", |look_up_vnodes| create(&look_up_vnodes.top, "hidden")),
    ("make a directory", |look_up_vnodes| look_up_vnodes.top.mkdir(&server(), name("new"), 0o755).map(drop)),
    ("make a symlink", |look_up_vnodes| look_up_vnodes.top.symlink(&server(), name("new"), b"x").map(drop)),
    ("link", |look_up_vnodes| look_up_vnodes.top.link(&server(), &look_up_vnodes.left, name("new")).map(drop)),
    ("unlink its file", |look_up_vnodes| look_up_vnodes.top.unlink(&server(), name("own"))),
    ("unlink what is on its right", |look_up_vnodes| look_up_vnodes.top.unlink(&server(), name("right"))),
    ("remove a merged directory", |look_up_vnodes| look_up_vnodes.top.rmdir(&server(), name("merged"))),
    ("rename", |look_up_vnodes| {
        look_up_vnodes.top.rename(&server(), name("left"), &look_up_vnodes.top, name("new"), RenameMode::NoReplace)
    }),
    ("rename its file", |look_up_vnodes| {
        look_up_vnodes.top.rename(&server(), name("own"), &look_up_vnodes.top, name("x"), RenameMode::Replace)
    }),
    ("rename a merged directory", |look_up_vnodes| {
        look_up_vnodes.top.rename(&server(), name("merged"), &look_up_vnodes.top, name("new"), RenameMode::Replace)
    }),
    ("rename what may be on its right", |look_up_vnodes| {
        look_up_vnodes.top.rename(&server(), name("left"), &look_up_vnodes.top, name("both"), RenameMode::Replace)
    }),
    ("rename onto its file", |look_up_vnodes| {
        look_up_vnodes.top.rename(&server(), name("left"), &look_up_vnodes.top, name("own"), RenameMode::Exchange)
    }),
];

/// What does not.
const INDEPENDENT_OPERATIONS: &[Operation] = &[
    ("read the attributes of the root", |look_up_vnodes| look_up_vnodes.top.getattr(&server()).map(drop)),
    ("read the attributes of a merged directory", |look_up_vnodes| look_up_vnodes.merged.getattr(&server()).map(drop)),
    ("read what is on the left", |look_up_vnodes| {
        let left = look_up_vnodes.top.lookup(&server(), name("left"))?.vnode;
        let file = left.open(&server(), OpenFlags::READ)?;
        assert_eq!(file.read_at(&server(), 0, &mut [0; 100]), Ok(6));
        Ok(())
    }),
    ("read what is on the left in a merged directory", |look_up_vnodes| {
        look_up_vnodes.merged.lookup(&server(), name("left"))?.vnode.open(&server(), OpenFlags::READ).map(drop)
    }),
    ("write what is on the left", |look_up_vnodes| {
        let file = look_up_vnodes.left.open(&server(), OpenFlags::READ_WRITE)?;
        file.write_at(&server(), 0, b"new").map(drop)
    }),
    ("change the mode of what is on the left", |look_up_vnodes| {
        let changes = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        look_up_vnodes.left.setattr(&server(), &changes).map(drop)
    }),
    ("create what is there", |look_up_vnodes| {
        assert_eq!(create(&look_up_vnodes.top, "left"), Ok(()), "it is opened");
        look_up_vnodes.top.mkdir(&server(), name("left"), 0o755).map(drop).or_else(|error| match error {
            Errno::EEXIST => Ok(()),
            error => Err(error),
        })
    }),
    ("unlink what is on both sides", |look_up_vnodes| look_up_vnodes.top.unlink(&server(), name("both"))),
    ("unlink what is on the left", |look_up_vnodes| look_up_vnodes.merged.unlink(&server(), name("left"))),
];

fn look_up_vnodes(failing: &FailingUnion) -> CachedVnodes {
    let find = |path| at(&failing.scene.union, path).unwrap();
    CachedVnodes { top: failing.top(), merged: find("merged"), left: find("left"), own: find("own") }
}

/// Tries the operations while a branch has failed: twice, since the first may learn of it. Those with other results.
fn differing_operations(
    failure: Failure,
    options: &[(&str, &str)],
    operations: &[Operation],
    expected: Result<()>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (title, operation) in operations {
        let failing = FailingUnion::at(1, failure, options);
        let look_up_vnodes = look_up_vnodes(&failing);
        failing.fail(failure);
        for time in ["first", "second"] {
            let answer = operation(&look_up_vnodes);
            // What has been removed is gone.
            let is_done = expected == Ok(()) && time == "second" && answer == Err(Errno::ENOENT);
            if answer != expected && !is_done {
                problems.push(format!("{failure:?}, {options:?}: {title}, {time}: {answer:?}"));
            }
        }
    }
    problems
}

#[test]
fn only_operations_on_a_failed_branch_return_eio() {
    let all = [&[][..], &[("delete", "all")], &[("create", "most-free")], &[("whiteouts", "overlay")]];
    let cases: Vec<_> = FAILURES.iter().flat_map(|failure| all.map(|options| (*failure, options))).collect();
    let problems: Vec<String> = thread::scope(|scope| {
        let differing_operations = |(failure, options): (Failure, &'static [(&'static str, &'static str)])| {
            let run = move || {
                let needing = differing_operations(failure, options, DEPENDENT_OPERATIONS, Err(Errno::EIO));
                [needing, differing_operations(failure, options, INDEPENDENT_OPERATIONS, Ok(()))].concat()
            };
            scope.spawn(run)
        };
        let running: Vec<_> = cases.into_iter().map(differing_operations).collect();
        running.into_iter().flat_map(|case| case.join().unwrap()).collect()
    });
    assert!(problems.is_empty(), "{}:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn cached_file_of_failed_branch_returns_eio() {
    for failure in FAILURES {
        let failing = FailingUnion::at(1, failure, &[]);
        let look_up_vnodes = look_up_vnodes(&failing);
        let open = look_up_vnodes.own.open(&server(), OpenFlags::READ_WRITE).unwrap();
        failing.fail(failure);
        for time in 0..2 {
            let answers = [
                open.read_at(&server(), 0, &mut [0; 10]).map(drop),
                open.write_at(&server(), 0, b"new").map(drop),
                open.getattr(&server()).map(drop),
                open.fsync(&server(), false),
                look_up_vnodes.own.getattr(&server()).map(drop),
                look_up_vnodes.own.open(&server(), OpenFlags::READ).map(drop),
                look_up_vnodes
                    .own
                    .setattr(&server(), &SetAttributes { mode: Some(0o600), ..SetAttributes::default() })
                    .map(drop),
            ];
            for (index, answer) in answers.into_iter().enumerate() {
                // What is open or known of a removed file is still there.
                let is_kept = failure == Failure::RootRemoved && answer == Ok(());
                assert!(is_kept || answer == Err(Errno::EIO), "{failure:?}: {index}, {time}: {answer:?}");
            }
        }
    }
}

#[test]
fn open_listing_reports_failed_branch() {
    for failure in FAILURES {
        for path in ["", "merged", "only"] {
            let failing = FailingUnion::at(1, failure, &[]);
            let directory = at(&failing.scene.union, path).unwrap();
            let open = directory.open_directory(&server()).unwrap();
            open.read(&server(), Cookie::START, &mut |_| ControlFlow::Continue(())).unwrap();
            failing.fail(failure);
            let again = open.read(&server(), Cookie::START, &mut |_| ControlFlow::Continue(()));
            assert_eq!(again, Err(Errno::EIO), "{failure:?}: {path:?}");
        }
    }
}

#[test]
fn interrupted_listing_reports_an_error() {
    for failure in FAILURES {
        let failing = FailingUnion::at(1, failure, &[]);
        fill(&failing.scene.branches[1], 1, "only/second");
        let open = at(&failing.scene.union, "only").unwrap().open_directory(&server()).unwrap();
        let mut cookie = Cookie::START;
        let mut next = |names: &mut Vec<String>| {
            let mut seen = None;
            let read = open.read(&server(), cookie, &mut |entry| {
                seen = Some((entry.cookie, String::from_utf8_lossy(entry.name.as_bytes()).into_owned()));
                ControlFlow::Break(())
            });
            let is_more = seen.is_some();
            if let Some((next, name)) = seen {
                cookie = next;
                names.push(name);
            }
            read.map(|()| is_more)
        };
        let mut names = Vec::new();
        assert_eq!(next(&mut names), Ok(true));
        failing.fail(failure);
        let end = loop {
            match next(&mut names) {
                Ok(true) => {}
                end => break end,
            }
        };
        assert_eq!(end, Err(Errno::EIO), "{failure:?}: {names:?}");
    }
}

#[test]
fn handle_in_failed_branch_is_not_stale() {
    let failing = FailingUnion::at(1, Failure::RootRemoved, &[]);
    let handles = ["own", "merged/own", "only"].map(|path| at(&failing.scene.union, path).unwrap().handle());
    failing.fail(Failure::RootRemoved);
    for handle in handles {
        assert_eq!(failing.scene.union.resolve(&server(), &handle).map(drop), Err(Errno::EIO));
    }
}

#[test]
fn listing_does_not_omit_unreadable_entries() {
    for (place, path) in [(1, "only"), (0, "only"), (1, "merged")] {
        let failing = FailingUnion::at(place, Failure::Answers("EIO"), &[]);
        fill(&failing.scene.branches[place], 1, "only/second");
        let mknod = |path| {
            let directory = at(&failing.scene.branches[place], path).unwrap();
            let device = vnode::Device { major: 1, minor: 3 };
            directory.mknod(&server(), name("device"), FileKind::CharacterDevice, 0o600, device).unwrap();
        };
        mknod(path);
        let directory = at(&failing.scene.union, path).unwrap();
        let before = names_of(&directory).unwrap();
        failing.told.as_ref().unwrap().set(0, &[("operations", "lookup"), ("error", "EIO")]);
        assert_eq!(names_of(&directory), Err(Errno::EIO), "{place}: {path}");
        failing.told.as_ref().unwrap().off();
        assert_eq!(names_of(&directory), Ok(before), "{place}: {path}");
        assert!(!failing.branches().contains("failed"), "the branch itself is there");
    }
}

#[test]
fn nothing_is_created_in_a_failed_branch() {
    for failure in FAILURES {
        let failing = FailingUnion::at(0, failure, &[]);
        let (top, file) = (failing.top(), at(&failing.scene.union, "left").unwrap());
        failing.fail(failure);
        for _ in 0..2 {
            assert_eq!(top.getattr(&server()).map(drop), Err(Errno::EIO), "{failure:?}");
            assert_eq!(create(&top, "new"), Err(Errno::EIO), "{failure:?}");
            assert_eq!(create(&top, "left"), Err(Errno::EIO), "{failure:?}");
            assert_eq!(top.unlink(&server(), name("left")), Err(Errno::EIO), "{failure:?}");
            assert_eq!(names_of(&top).map(drop), Err(Errno::EIO), "{failure:?}");
            assert!(file.getattr(&server()).is_ok(), "{failure:?}: it is on the right, and known");
        }
        for (command, argument) in [("snapshot-take", "name"), ("snapshot-merge", ""), ("snapshot-restore", "name")] {
            let arguments = [("name", argument)];
            let answer = failing.scene.tell(command, &arguments[..usize::from(!argument.is_empty())]);
            let is_refused = match &answer {
                Err(ControlError::Failed(errno)) => *errno == Errno::EIO,
                Err(ControlError::Refused(why)) => why.contains("failed"),
                _ => false,
            };
            assert!(is_refused, "{failure:?}: {command}: {answer:?}");
        }
        let [left, right] = [1, 2].map(|branch| list(&failing.scene.branches[branch], ""));
        assert_eq!(left, ["both", "left", "leftmost", "merged"]);
        assert_eq!(right, ["both", "hidden", "left", "merged", "right"]);
    }
}

thread_local! {
    /// The number of warnings in this thread.
    static WARNINGS: Cell<usize> = const { Cell::new(0) };
}

/// Counts warnings by thread.
struct WarningCounter;

impl tracing::Subscriber for WarningCounter {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target() == "union"
    }

    fn event(&self, _: &tracing::Event<'_>) {
        WARNINGS.set(WARNINGS.get() + 1);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn failed_branch_is_reported_once_and_recovers() {
    tracing::subscriber::set_global_default(WarningCounter).unwrap();
    for failure in [Failure::Answers("EIO"), Failure::Answers("ESTALE")] {
        let failing = FailingUnion::at(1, failure, &[]);
        let (before, look_up_vnodes, listed) = (state_of(&failing.top()), look_up_vnodes(&failing), failing.branches());
        WARNINGS.set(0);
        failing.fail(failure);
        (0..3).for_each(|_| {
            DEPENDENT_OPERATIONS[..9].iter().for_each(|(_, operation)| operation(&look_up_vnodes).unwrap_or_default())
        });
        assert_eq!(WARNINGS.get(), 1, "{failure:?}");
        assert_eq!(failing.branches(), listed.replace("branch 1=rw", "branch 1=rw (failed)"), "{failure:?}");
        failing.recover();
        assert_eq!(difference(&before, &state_of(&failing.top())), "", "{failure:?}");
        assert_eq!(failing.branches(), listed);
        create(&look_up_vnodes.top, "new").unwrap();
        // Again, and reported again.
        failing.fail(failure);
        assert_eq!(names_of(&look_up_vnodes.top), Err(Errno::EIO));
        assert_eq!(WARNINGS.get(), 2, "{failure:?}");
        failing.recover();
        assert!(names_of(&look_up_vnodes.top).unwrap().contains(&"new".to_owned()));
    }
}

#[test]
fn failed_branch_is_rarely_queried() {
    let failing = FailingUnion::at(1, Failure::Answers("EIO"), &[]);
    let look_up_vnodes = look_up_vnodes(&failing);
    failing.fail(Failure::Answers("EIO"));
    assert_eq!(names_of(&look_up_vnodes.top), Err(Errno::EIO));
    failing.told.as_ref().unwrap().set(0, &[("error", "EIO")]);
    (0..100).for_each(|_| assert!(look_up_vnodes.top.lookup(&server(), name("own")).is_err()));
    let calls = failing.told.as_ref().unwrap().count(0, "calls");
    assert!(calls < 5, "{calls} calls");
}

#[test]
fn removal_during_branch_failure_persists() {
    for options in [&[][..], &[("delete", "all")], &[("whiteouts", "overlay")]] {
        let failing = FailingUnion::at(1, Failure::Answers("EIO"), options);
        failing.fail(Failure::Answers("EIO"));
        // It is not known whether something is on the right.
        failing.top().unlink(&server(), name("both")).unwrap();
        failing.recover();
        assert_eq!(read(&failing.scene.union, "both"), Err(Errno::ENOENT), "{options:?}");
        assert!(!list(&failing.scene.union, "").contains(&"both".to_owned()), "{options:?}");
        assert_eq!(read(&failing.scene.union, "own").unwrap(), "1:own");
    }
}

#[test]
fn failed_branch_can_be_removed_and_added() {
    for failure in FAILURES {
        let failing = FailingUnion::at(1, failure, &[]);
        let look_up_vnodes = look_up_vnodes(&failing);
        failing.fail(failure);
        assert_eq!(names_of(&look_up_vnodes.top), Err(Errno::EIO), "{failure:?}");
        failing.scene.tell("remove", &[("branch", "branch 1")]).unwrap();
        assert_eq!(names_of(&look_up_vnodes.top).unwrap(), ["both", "hidden", "left", "leftmost", "merged", "right"]);
        assert_eq!(names_of(&look_up_vnodes.merged).unwrap(), ["hidden", "left", "right"]);
        create(&look_up_vnodes.top, "new").unwrap();
        let again = memory();
        FAILING_PATHS.iter().for_each(|path| fill(&again, 1, path));
        failing.scene.offer("branch 1", &again);
        failing.scene.tell("add", &[("branch", "branch 1=rw"), ("at", "1")]).unwrap();
        assert_eq!(
            names_of(&look_up_vnodes.top).unwrap(),
            ["both", "left", "leftmost", "merged", "new", "only", "own", "right"]
        );
    }
}

#[test]
fn replaced_root_counts_as_failure() {
    let failing = FailingUnion::at(1, Failure::RootRemoved, &[]);
    let look_up_vnodes = look_up_vnodes(&failing);
    failing.fail(Failure::RootRemoved);
    std::fs::create_dir(&failing.root).unwrap();
    thread::sleep(RECHECK_INTERVAL);
    assert_eq!(names_of(&look_up_vnodes.top), Err(Errno::EIO));
    assert_eq!(look_up_vnodes.top.lookup(&server(), name("hidden")).map(drop), Err(Errno::EIO));
    assert!(failing.branches().contains("branch 1=rw (failed)"));
}

const SERVE_VARIABLE: &str = "PLYFS_TEST_SERVE";

/// In the process of a server, the server of the branch that fails. Elsewhere, nothing.
#[test]
fn serve_if_asked() {
    let Ok(directory) = std::env::var(SERVE_VARIABLE) else { return };
    let served = memory();
    FAILING_PATHS.iter().for_each(|path| fill(&served, 1, path));
    let mount = Mount::new(served, Path::new(&directory), &MountOptions::default()).unwrap();
    println!("\nready");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(mount);
}

/// Where a server that is killed has mounted something.
struct Mounted(tempfile::TempDir);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = MountPoint::open(self.0.path()).and_then(|point| point.unmount(UnmountMode::Lazy));
    }
}

#[test]
fn branch_of_killed_server_fails() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return;
    }
    let mounted = Mounted(tempfile::tempdir().unwrap());
    let directory = &mounted.0;
    let mut served = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serve_if_asked", "--nocapture"])
        .env(SERVE_VARIABLE, directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(served.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")), "the server ended");
    let [left, right] = [(0, &HIGHER_PATHS[..]), (2, &LOWER_PATHS)].map(|(index, paths)| {
        let branch = memory();
        paths.iter().for_each(|path| fill(&branch, index, path));
        branch
    });
    let own: FileSystemRef = Arc::new(DirectoryFileSystem::open(directory.path(), Options::default()).unwrap());
    let modes = [BranchMode::ReadWrite, BranchMode::ReadWrite, BranchMode::ReadOnly];
    let scene = joined_with(&[], modes.into_iter().zip([left, own, right]).collect());
    let find = |path| at(&scene.union, path).unwrap();
    let look_up_vnodes =
        CachedVnodes { top: scene.union.root(), merged: find("merged"), left: find("left"), own: find("own") };
    assert_eq!(names_of(&look_up_vnodes.merged).unwrap(), ["left", "own", "right"]);
    served.kill().unwrap();
    served.wait().unwrap();
    // What the kernel has cached of it still answers.
    let begin = Instant::now();
    while !scene.tell("branches", &[]).unwrap().contains("branch 1=rw (failed)") {
        assert!(begin.elapsed() < Duration::from_secs(30), "it has not failed");
        thread::sleep(NAME_CACHE_LIFETIME);
    }
    let mut problems = Vec::new();
    for (operations, expected) in [(DEPENDENT_OPERATIONS, Err(Errno::EIO)), (INDEPENDENT_OPERATIONS, Ok(()))] {
        for (title, operation) in operations {
            let answer = operation(&look_up_vnodes);
            if answer != expected {
                problems.push(format!("{title}: {answer:?}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
