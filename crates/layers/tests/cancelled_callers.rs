//! Programs that are killed while a mount is slow leave at once, and nothing half-way; programs that are sent signals which they
//! handle notice nothing. Needs root and /dev/fuse, and says so where they are absent.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::unions::joined_with;
use common::{contents, create, layer, list, memory, root, walk};
use frontends::fuse::{Mount, MountOptions, UnmountMode};
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use vnode::{Control, Errno, FileSystemRef};

/// How long what is done at once may take on a machine that is busy.
const AT_ONCE: Duration = Duration::from_secs(20);
/// Longer than any test may take.
const FOREVER_MS: &str = "3600000";
const FILE_BYTES: usize = 24 << 20;

/// A mount, aborted when dropped: nobody may be left waiting.
struct Mounted {
    mount: Mount,
    directory: tempfile::TempDir,
}

impl Mounted {
    /// `None`, with a word about it, where nothing can be mounted.
    fn new(file_system: FileSystemRef) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mount = Mount::new(file_system, directory.path(), &MountOptions::default()).unwrap();
        Some(Self { mount, directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A program that does something with the file of the mount.
    fn start(&self, program: &str, arguments: &[&str]) -> Child {
        Command::new(program).args(arguments).arg(self.path("file")).stdout(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.mount.unmount(UnmountMode::Abort);
    }
}

fn data() -> Vec<u8> {
    (0..FILE_BYTES).map(|number| (number / 7 % 251) as u8).collect()
}

/// A file system in memory with `file`.
fn with_file() -> FileSystemRef {
    let tree = memory();
    create(&tree.root(), &root(), "file", 0o644).1.write_at(&root(), 0, &data()).unwrap();
    tree
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + AT_ONCE;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The number of operations that `faulty` has delayed or stopped.
fn faults(faulty: &FileSystemRef) -> u64 {
    let stats = Control { target: "faulty".to_owned(), command: "stats".to_owned(), arguments: Vec::new() };
    let stats = faulty.control(&stats).unwrap();
    let faults = stats.split(' ').find_map(|part| part.strip_prefix("faults="));
    faults.unwrap().parse().unwrap()
}

/// Kills processes, which end at once.
fn kill(mut processes: Vec<Child>) {
    // First all: the kernel has some wait for the reply that another gets.
    processes.iter_mut().for_each(|process| process.kill().unwrap());
    processes.into_iter().for_each(is_killed);
}

fn is_killed(mut process: Child) {
    let begin = Instant::now();
    until("who is killed has gone", || process.try_wait().unwrap().is_some());
    assert!(begin.elapsed() < AT_ONCE);
    assert_eq!(process.wait().unwrap().signal(), Some(9));
}

/// Sends signals to a process that handles them.
fn alarm(process: &Child, count: usize) {
    for _ in 0..count {
        let pid = rustix::process::Pid::from_child(process);
        rustix::process::kill_process(pid, rustix::process::Signal::ALARM).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Begins a program in Python by having signals handled: the first argument says whether calls go on after them.
const HANDLING: &str = "import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.pread.restype = libc.pwrite.restype = ctypes.c_ssize_t
libc.pread.argtypes = libc.pwrite.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
count = 0
def handle(*_):
    global count
    count += 1
def done(result, expected, what):
    if result != expected:
        print(what, result, 'not', expected, os.strerror(ctypes.get_errno()), file=sys.stderr)
        os._exit(1)
signal.signal(signal.SIGALRM, handle)
signal.siginterrupt(signal.SIGALRM, sys.argv[1] == 'interrupting')
path = sys.argv[-1].encode()
";

fn handling(kind: &str, mounted: &Mounted, script: &str) -> Child {
    mounted.start("python3", &["-c", &format!("{HANDLING}{script}"), kind])
}

const KINDS: [&str; 2] = ["restarting", "interrupting"];

#[test]
fn who_is_killed_while_an_operation_is_delayed_leaves() {
    for operations in ["read", "getattr:lookup", "open"] {
        for rule in [("delay", FOREVER_MS), ("stop", "yes")] {
            let faulty = layer("faulty", &[("operations", operations), rule], with_file());
            let Some(mounted) = Mounted::new(Arc::clone(&faulty)) else { return };
            let before = faults(&faulty);
            let readers: Vec<Child> = (0..4).map(|_| mounted.start("cat", &[])).collect();
            until("they wait", || faults(&faulty) > before);
            kill(readers);
            let off = Control { target: "faulty".to_owned(), command: "off".to_owned(), arguments: Vec::new() };
            faulty.control(&off).unwrap();
            assert!(fs::read(mounted.path("file")).unwrap() == data(), "{operations} {rule:?}");
            assert!(mounted.mount.workers() < 16);
            mounted.mount.unmount(UnmountMode::Clean).unwrap();
            assert!(mounted.mount.wait_timeout(AT_ONCE), "workers are free: {operations} {rule:?}");
        }
    }
}

/// The kernel tells of the first signal only.
#[test]
fn who_is_killed_after_other_signals_leaves_and_not_before() {
    for kind in KINDS {
        let faulty = layer("faulty", &[("operations", "read"), ("delay", FOREVER_MS)], with_file());
        let Some(mounted) = Mounted::new(Arc::clone(&faulty)) else { return };
        // What Python calls by itself it calls again.
        let script = "libc.pread(libc.open(path, os.O_RDONLY), ctypes.create_string_buffer(10), 10, 0)";
        let mut reader = handling(kind, &mounted, script);
        until("it waits", || faults(&faulty) > 0);
        alarm(&reader, 10);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(reader.try_wait().unwrap(), None, "{kind}");
        kill(vec![reader]);
    }
}

#[test]
fn signals_that_end_a_program_by_default_cancel_as_well() {
    use rustix::process::{Pid, Signal, kill_process};
    for signal in [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::ABORT] {
        let faulty = layer("faulty", &[("operations", "read"), ("delay", FOREVER_MS)], with_file());
        let Some(mounted) = Mounted::new(Arc::clone(&faulty)) else { return };
        let script = "ulimit -c 0; exec cat \"$0\"";
        let mut reader = mounted.start("env", &["--default-signal", "sh", "-c", script]);
        until("it waits", || faults(&faulty) > 0);
        kill_process(Pid::from_child(&reader), signal).unwrap();
        until("it has gone", || reader.try_wait().unwrap().is_some());
        assert_eq!(reader.wait().unwrap().signal(), Some(signal.as_raw()));
    }
}

/// A union whose branch below is slow to read, what is copied to, and the slow one.
fn slow_union(delay_ms: &str) -> (FileSystemRef, FileSystemRef, FileSystemRef) {
    let (upper, lower) = (memory(), with_file());
    let slow = layer("faulty", &[("operations", "read"), ("delay", delay_ms)], lower);
    let branches = vec![(ReadWrite, Arc::clone(&upper)), (ReadOnly, Arc::clone(&slow))];
    (joined_with(&[], branches).union, upper, slow)
}

#[test]
fn who_is_killed_while_a_file_is_copied_leaves_nothing_of_it() {
    let (union, upper, slow) = slow_union("100");
    let Some(mounted) = Mounted::new(union) else { return };
    let append = ["-c", "echo more >> \"$0\""];
    let writers: Vec<Child> = (0..3).map(|_| mounted.start("sh", &append)).collect();
    // One copies, and the others wait for that.
    until("it is copied", || faults(&slow) > 2);
    writers.into_iter().for_each(|writer| kill(vec![writer]));
    assert_eq!(walk(&upper, &root(), "file").map(drop), Err(Errno::ENOENT));
    until("nothing is left of it", || match walk(&upper, &root(), ".wh..wh.plyfs/work") {
        Ok(work) => list(&work.vnode, &root()).is_empty(),
        Err(_) => true,
    });
    let off = Control { target: "faulty".to_owned(), command: "off".to_owned(), arguments: Vec::new() };
    slow.control(&off).unwrap();
    assert!(fs::read(mounted.path("file")).unwrap() == data());
    assert!(mounted.start("sh", &append).wait().unwrap().success());
    let copied = contents(&walk(&upper, &root(), "file").unwrap().vnode, &root());
    assert!(copied[..FILE_BYTES] == data()[..] && &copied[FILE_BYTES..] == b"more\n");
}

#[test]
fn signals_that_are_handled_change_no_read_write_or_copy() {
    let script = format!(
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
size = {FILE_BYTES}
expected = bytes(number // 7 % 251 for number in range(7 * 251)) * (size // (7 * 251) + 1)
fd = libc.open(path, os.O_RDONLY)
room = ctypes.create_string_buffer(size)
for _ in range(2):
    done(libc.pread(fd, room, size, 0), size, 'read')
    done(room.raw == expected[:size], True, 'data')
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
writer = libc.open(path, os.O_RDWR)
done(writer >= 0, True, 'open')
done(libc.pwrite(writer, expected[1:size + 1], size, 0), size, 'write')
done(libc.fsync(writer), 0, 'fsync')
os.posix_fadvise(writer, 0, 0, os.POSIX_FADV_DONTNEED)
done(libc.pread(writer, room, size, 0), size, 'read again')
done(room.raw == expected[1:size + 1], True, 'data again')
done(libc.rename(path, path + b'.new'), 0, 'rename')
done(libc.access(path + b'.new', os.R_OK), 0, 'access')
done(libc.close(writer), 0, 'close')
done(count > 3, True, 'signals')
os._exit(0)"
    );
    for kind in KINDS {
        let (union, upper, _) = slow_union("4");
        let Some(mounted) = Mounted::new(union) else { return };
        let status = handling(kind, &mounted, &script).wait().unwrap();
        assert!(status.success(), "{kind}: {status}");
        assert_eq!(contents(&walk(&upper, &root(), "file.new").unwrap().vnode, &root()).len(), FILE_BYTES);
    }
}
