//! A union whose branches make somebody wait: nobody else does, nor who changes the union.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bases::dir::{DirectoryFileSystem, Options};
use common::unions::{Scene, at, fill, joined, list, name, server};
use common::{layer, memory};
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use vnode::{Control, ControlError, Errno, FileSystemRef, OpenFlags, RenameMode};

/// Longer than whatever is to be limited, and shorter than who waits for what never comes.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// For so long one operation may be kept from beginning.
const MAX_START_DELAY: Duration = Duration::from_secs(1);

/// Has the branch of faults, which is the second, do that.
fn faults(scene: &Scene, command: &str, arguments: &[(&str, &str)]) -> String {
    let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let (target, command) = ("faulty".to_owned(), command.to_owned());
    scene.branches[1].control(&Control { target, command, arguments }).unwrap()
}

/// Waits until that many operations are stopped there.
fn wait_for_stopped(scene: &Scene, count: usize) {
    let begin = Instant::now();
    while !faults(scene, "stats", &[]).ends_with(&format!("stopped={count}")) {
        assert!(begin.elapsed() < TIME_LIMIT, "{}", faults(scene, "stats", &[]));
        thread::sleep(Duration::from_millis(5));
    }
}

/// A union of a branch and one that can be stopped, with a file and directories in each.
fn scene() -> Scene {
    let (own, other) = (memory(), memory());
    fill(&own, 0, "mine");
    fill(&other, 1, "theirs");
    (0..20).for_each(|index| fill(&other, 1, &format!("d{index}/file")));
    let other: FileSystemRef = layer("faulty", &[("operations", "getlk"), ("error", "EIO")], other);
    joined(vec![(ReadWrite, own), (ReadOnly, other)])
}

#[test]
fn command_times_out_on_stuck_operation_without_blocking_others() {
    let scene = scene();
    let (mine, theirs) = (at(&scene.union, "mine").unwrap(), at(&scene.union, "theirs").unwrap());
    let new = memory();
    scene.offer("new", &new);
    faults(&scene, "set", &[("operations", "open"), ("stop", "yes")]);
    thread::scope(|scope| {
        let stuck = scope.spawn(|| theirs.open(&server(), OpenFlags::READ).map(drop));
        wait_for_stopped(&scene, 1);
        for (command, arguments) in [
            ("add", &[("branch", "new=ro")][..]),
            ("snapshot-take", &[("name", "now")]),
            ("mode", &[("branch", "branch 0"), ("mode", "ro")]),
        ] {
            let change = scope.spawn(|| {
                let begin = Instant::now();
                (scene.tell(command, arguments), begin.elapsed())
            });
            let mut longest = Duration::ZERO;
            while !change.is_finished() {
                let begin = Instant::now();
                mine.open(&server(), OpenFlags::READ).unwrap();
                longest = longest.max(begin.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            let (answer, taken) = change.join().unwrap();
            assert!(matches!(answer, Err(ControlError::Refused(_))), "{command}: {answer:?}");
            assert!(longest < MAX_START_DELAY, "{command}: another waited for {longest:?}");
            assert!(taken < Duration::from_secs(5), "{command} took {taken:?}, which is longer than who sent it waits");
        }
        faults(&scene, "off", &[]);
        stuck.join().unwrap().unwrap();
    });
    scene.tell("add", &[("branch", "new=ro")]).unwrap();
    scene.tell("snapshot-take", &[("name", "now")]).unwrap();
}

#[test]
fn branches_change_despite_hung_directories() {
    let scene = scene();
    let directories: Vec<_> = (0..20).map(|index| at(&scene.union, &format!("d{index}")).unwrap()).collect();
    let mine = at(&scene.union, "mine").unwrap();
    let new = memory();
    fill(&new, 2, "d3/added");
    scene.offer("new", &new);
    faults(&scene, "set", &[("operations", "lookup"), ("stop", "yes")]);
    let begin = Instant::now();
    thread::scope(|scope| {
        let added = scope.spawn(|| scene.tell("add", &[("branch", "new=ro"), ("at", "0")]));
        while !added.is_finished() && begin.elapsed() < TIME_LIMIT {
            thread::sleep(Duration::from_millis(5));
        }
        let is_in_time = added.is_finished();
        let opened = is_in_time.then(|| mine.open(&server(), OpenFlags::READ).map(drop));
        faults(&scene, "off", &[]);
        assert!(is_in_time, "the change waited for the directories");
        added.join().unwrap().unwrap();
        opened.unwrap().unwrap();
    });
    assert!(directories[3].lookup(&server(), name("added")).is_ok(), "it is learnt when it is used");
    assert!(directories[3].lookup(&server(), name("file")).is_ok());
}

/// A process that holds a lease on a file and does not give it up when it is asked to.
struct LeaseHolder {
    holder: Child,
    end: Option<ChildStdin>,
}

impl LeaseHolder {
    fn take(file: &Path) -> Self {
        let script = "import fcntl, os, signal, sys\n\
                      signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
                      fd = os.open(sys.argv[1], os.O_RDWR)\n\
                      fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
                      print('leased', flush=True)\n\
                      sys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "leased\n");
        let end = holder.stdin.take();
        Self { holder, end }
    }
}

impl Drop for LeaseHolder {
    fn drop(&mut self) {
        drop(self.end.take());
        self.holder.wait().unwrap();
    }
}

/// A union of two directories; in each are a file and a directory.
fn directories() -> (Scene, [tempfile::TempDir; 2]) {
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for (directory, file) in directories.iter().zip(["mine", "theirs"]) {
        std::fs::write(directory.path().join(file), file).unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
    }
    let [own, other] = directories.each_ref().map(|directory| {
        Arc::new(DirectoryFileSystem::open(directory.path(), Options::default()).unwrap()) as FileSystemRef
    });
    (joined(vec![(ReadWrite, own), (ReadOnly, other)]), directories)
}

#[test]
fn branches_change_during_a_lease_wait() {
    for flags in [OpenFlags::READ, OpenFlags::WRITE, OpenFlags::READ_WRITE.with(OpenFlags::TRUNCATE)] {
        let (scene, lower) = directories();
        for (file, branch) in [("mine", 0), ("theirs", 1)] {
            if branch == 1 && flags.truncates() {
                // Nothing of the original is read.
                continue;
            }
            let lease = LeaseHolder::take(&lower[branch].path().join(file));
            let file = at(&scene.union, file).unwrap();
            let at_once = file.open(&server(), flags.with(OpenFlags::NONBLOCK));
            assert_eq!(at_once.map(drop), Err(Errno::EAGAIN), "{flags:?}");
            let begin = Instant::now();
            thread::scope(|scope| {
                let opened = scope.spawn(|| file.open(&server(), flags).map(drop));
                thread::sleep(Duration::from_millis(50));
                scene.tell("snapshot-take", &[("name", &format!("{branch}"))]).unwrap();
                assert!(!opened.is_finished(), "{flags:?}: it waits for the lease");
                drop(lease);
                opened.join().unwrap().unwrap();
            });
            assert!(begin.elapsed() < TIME_LIMIT, "{flags:?}");
        }
    }
}

#[test]
fn closing_a_file_that_the_kernel_uses_keeps_nobody_from_opening_it_at_once() {
    let (scene, _lower) = directories();
    let (mine, nonblocking) = (at(&scene.union, "mine").unwrap(), OpenFlags::READ.with(OpenFlags::NONBLOCK));
    let opens = AtomicUsize::new(0);
    thread::scope(|scope| {
        let opening = || {
            while opens.fetch_add(1, Ordering::Relaxed) < 60_000 {
                assert_eq!(mine.open(&server(), nonblocking).map(drop), Ok(()));
            }
        };
        let openers = [scope.spawn(opening), scope.spawn(opening)];
        while openers.iter().any(|opener| !opener.is_finished()) {
            // The union asks whether it is mapped, by a lease.
            let written = mine.open(&server(), OpenFlags::READ_WRITE).unwrap();
            assert!(written.backing().is_some(), "the kernel can write it");
        }
    });
}

#[test]
fn who_holds_locks_does_not_wait_for_a_leased_file() {
    const OPENS: u32 = 20;
    let (scene, lower) = directories();
    let _lease = LeaseHolder::take(&lower[0].path().join("mine"));
    let mine = at(&scene.union, "mine").unwrap();
    let flags = OpenFlags::READ.with(OpenFlags::NONBLOCK).with(OpenFlags::AT_ONCE);
    let begin = Instant::now();
    (0..OPENS).for_each(|_| assert_eq!(mine.open(&server(), flags).map(drop), Err(Errno::EAGAIN)));
    assert!(begin.elapsed() < OPENS * Duration::from_millis(100), "{:?}", begin.elapsed());
}

#[test]
fn rename_of_leased_file_is_refused_in_time() {
    let (scene, lower) = directories();
    let lease = LeaseHolder::take(&lower[1].path().join("theirs"));
    let (root, directory) = (scene.union.root(), at(&scene.union, "d").unwrap());
    let rename = || root.rename(&server(), name("theirs"), &directory, name("renamed"), RenameMode::Replace);
    let begin = Instant::now();
    assert_eq!(rename(), Err(Errno::EXDEV));
    let theirs = root.lookup(&server(), name("theirs")).unwrap().vnode;
    assert_eq!(directory.link(&server(), &theirs, name("linked")).map(drop), Err(Errno::EAGAIN));
    assert!(begin.elapsed() < Duration::from_secs(10), "others waited for {:?}", begin.elapsed());
    assert_eq!(list(&scene.union, ""), ["d", "mine", "theirs"]);
    drop(lease);
    rename().unwrap();
    assert_eq!(list(&scene.union, "d"), ["renamed"]);
    assert!(std::fs::read_dir(lower[0].path().join("d")).unwrap().count() == 1);
}
