//! What the tests of mounts share: mounts of the bases on directories of their own.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use plyfs_frontends::fuse::{Mount, MountOptions, UnmountMode};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use vnode::layer::Layer;
use vnode::{FileSystemRef, Notifier, Promises};

/// A mount on a directory of its own, unmounted when dropped.
pub(crate) struct Mounted {
    /// The mount.
    pub mount: Mount,
    _directory: tempfile::TempDir,
}

impl Mounted {
    /// A path in the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.mount.mount_point().join(name)
    }

    /// The number of requests of an operation, by its name in the protocol.
    pub(crate) fn requests(&self, operation: &str) -> u64 {
        let counts = self.mount.statistics();
        counts.iter().find(|count| count.operation == operation).map_or(0, |count| count.times.requests())
    }
}

/// Unmounts. A program that another test of this process starts has copies of all open files until it is executed: while the
/// mount is in use, this is tried again for a while.
pub(crate) fn unmount_when_unused(mount: &Mount) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match mount.unmount(UnmountMode::Clean) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            ended => return ended.unwrap(),
        }
    }
}

/// An empty file system in memory.
pub(crate) fn memory() -> FileSystemRef {
    let options = bases::mem::Options { size: 64 << 20, mode: 0o755, ..Default::default() };
    Arc::new(bases::mem::MemoryFileSystem::new(options))
}

/// A mount; `None`, with a word about it, where nothing can be mounted.
pub(crate) fn mount_with(file_system: FileSystemRef, options: MountOptions) -> Option<Mounted> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: mounting needs root and /dev/fuse");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let options = MountOptions { allow_other: true, ..options };
    let mount = Mount::new(file_system, directory.path(), &options).unwrap();
    Some(Mounted { mount, _directory: directory })
}

/// A mount of a file system in memory.
pub(crate) fn mount_memory() -> Option<Mounted> {
    mount_with(memory(), MountOptions::default())
}

/// A mount of a directory, with the directory below.
pub(crate) fn mount_directory(options: MountOptions) -> Option<(Mounted, tempfile::TempDir)> {
    let lower = tempfile::tempdir().unwrap();
    fs::set_permissions(lower.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let base = bases::dir::DirectoryFileSystem::open(lower.path(), bases::dir::Options::default()).unwrap();
    Some((mount_with(Arc::new(base), options)?, lower))
}

/// Runs a shell command as another user: whether it succeeded.
pub(crate) fn as_user(uid: u32, command: &str) -> bool {
    let status =
        Command::new("sh").args(["-c", command]).uid(uid).gid(uid).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.unwrap().success()
}

/// Changes a file through a shared mapping of a descriptor that is open for appending, in a process of its own: while the
/// file is mapped, a page fault of this one would wait for itself.
pub(crate) fn map_while_appending(path: &Path) -> bool {
    let script = "import mmap, os, sys\n\
                  fd = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)\n\
                  with mmap.mmap(fd, 8192) as mapping: mapping[10:15] = b'HELLO'\n\
                  os.write(fd, b'end')\n\
                  os.close(fd)";
    Command::new("python3").args(["-c", script]).arg(path).status().unwrap().success()
}

/// Takes or releases a byte-range lock, by a command of fcntl(2).
pub(crate) fn set_lock(
    file: &File,
    command: libc::c_int,
    kind: libc::c_int,
    start: i64,
    length: i64,
) -> io::Result<()> {
    let lock = libc::flock { l_type: kind as i16, l_whence: 0, l_start: start, l_len: length, l_pid: 0 };
    // SAFETY: the kernel reads `lock`, which outlives the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Copies a program to be run. A process of its own does it: what this one had open for writing for a moment, a process that
/// another test starts just then would have open too, and nobody could run it.
pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(copied.expect("cp is started").success(), "{} is not copied", from.as_ref().display());
}

/// Locks reach the base only where others could reach it too.
pub(crate) struct Shared;

impl Layer for Shared {
    type State = ();

    fn kind(&self) -> &'static str {
        "shared"
    }

    fn promises(&self) -> Promises {
        Promises { exclusive: false, ..Promises::TRANSPARENT }
    }
}

/// Opens a file as often as there are to be waiters, each of which waits for a lock of it in a thread with little memory.
pub(crate) fn wait_for_locks<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    path: &Path,
    count: usize,
    operation: rustix::fs::FlockOperation,
) -> Vec<std::thread::ScopedJoinHandle<'scope, io::Result<()>>> {
    let start = |_| {
        let file = File::open(path).unwrap();
        let wait = move || Ok(rustix::fs::flock(&file, operation)?);
        std::thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, wait).unwrap()
    };
    (0..count).map(start).collect()
}

/// Waits until it holds.
pub(crate) fn until(mut condition: impl FnMut() -> bool, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Has thousands wait for one lock: others are served at once meanwhile, and all get it.
pub(crate) fn thousands_wait_for_a_lock(mounted: &Mounted) {
    const WAITERS: usize = 3_000;
    use rustix::fs::{FlockOperation, flock};
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let path = mounted.path("file");
    fs::write(&path, b"data").unwrap();
    let holder = File::open(&path).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    let before = mounted.requests("SETLKW");
    std::thread::scope(|scope| {
        let waiters = wait_for_locks(scope, &path, WAITERS, FlockOperation::LockShared);
        until(|| mounted.requests("SETLKW") >= before + WAITERS as u64, "all wait");
        until(|| mounted.mount.workers() < 40, "they keep no workers");
        let started = Instant::now();
        for number in 0..100 {
            fs::write(mounted.path(&format!("other{number}")), b"quick").unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(10), "others waited for {:?}", started.elapsed());
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        flock(&holder, FlockOperation::Unlock).unwrap();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
    });
}

/// Gives the stack's notifier to a test, which changes what is below.
#[derive(Clone, Default)]
pub(crate) struct NotifierProbe(Arc<OnceLock<Arc<dyn Notifier>>>);

impl NotifierProbe {
    /// The notifier, which tells all front ends.
    pub(crate) fn notifier(&self) -> &Arc<dyn Notifier> {
        self.0.get().expect("a layer is given its notifier when it is stacked")
    }
}

impl Layer for NotifierProbe {
    type State = ();

    fn kind(&self) -> &'static str {
        "told"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn set_notifier(&self, notifier: &Arc<dyn Notifier>) {
        let _ = self.0.set(Arc::clone(notifier));
    }
}
