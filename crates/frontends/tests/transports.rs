//! Both transports, of which the test chooses: it sets the kernel's switch of io_uring, so nothing else may mount meanwhile.

mod support;

use plyfs_frontends::fuse::{MountOptions, UnmountMode, Uring};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use support::{Mounted, Shared, as_user, memory, mount_with, thousands_wait_for_a_lock, until};
use vnode::layer::{Layer, LayerFile, LayerVnode, Operation, stack};
use vnode::{Caller, Errno, OpenFileRef, OpenFlags, Promises, Result};

const URING_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// What the switch said before. Dropping this puts it back.
struct Switch(String);

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = fs::write(URING_SWITCH, self.0.trim());
    }
}

/// Puts the switch back at the end; `None`, with a word about it, where there is none.
fn restore_switch_on_drop() -> Option<Switch> {
    let before = fs::read_to_string(URING_SWITCH);
    before.inspect_err(|_| eprintln!("skipped: the kernel has no io_uring for FUSE")).ok().map(Switch)
}

/// One test: the switch is one for all mounts, and what the process holds is that of all.
#[test]
fn both_transports_carry_all_message_sizes_and_release_memory() {
    let Some(_switch) = restore_switch_on_drop() else { return };
    if std::env::var_os(FEW_WORKERS_VARIABLE).is_some() {
        return one_user_does_not_take_all_workers();
    }
    run_with_few_workers();
    requests_come_through_io_uring_where_it_is_on();
    memory_of_large_messages_is_released();
    thousands_wait_for_locks_over_io_uring();
    interrupted_waiters_end_without_the_lock();
    only_a_fatal_signal_ends_the_wait();
    extra_workers_end_after_a_burst();
}

fn thousands_wait_for_locks_over_io_uring() {
    let options = MountOptions { uring: Uring::On, ..MountOptions::default() };
    let Some(mounted) = mount_with(stack(Shared, memory()), options) else { return };
    // The entries that waited are used again.
    for _ in 0..2 {
        thousands_wait_for_a_lock(&mounted);
    }
    exchange_messages_of_all_sizes(&mounted);
}

/// A signal, a kill, and the end of the mount each end the wait for a lock.
fn interrupted_waiters_end_without_the_lock() {
    for uring in [Uring::Off, Uring::On] {
        let options = MountOptions { uring, ..MountOptions::default() };
        let Some(mounted) = mount_with(stack(Shared, memory()), options) else { return };
        let path = mounted.path("file");
        fs::write(&path, b"data").unwrap();
        let holder = File::open(&path).unwrap();
        rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let wait = |arguments: &[&str]| {
            let before = mounted.requests("SETLKW");
            let waiter =
                Command::new("flock").args(arguments).arg(&path).arg("true").stderr(Stdio::null()).spawn().unwrap();
            until(|| mounted.requests("SETLKW") > before, "it waits");
            waiter
        };
        // It has itself sent a signal.
        assert_eq!(wait(&["-w", "0.2", "-E", "7"]).wait().unwrap().code(), Some(7), "{uring:?}");
        let mut killed = wait(&[]);
        killed.kill().unwrap();
        until(|| killed.try_wait().unwrap().is_some(), "it is gone");
        rustix::fs::flock(&holder, rustix::fs::FlockOperation::Unlock).unwrap();
        rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let mut waiters: Vec<_> = (0..8).map(|_| wait(&[])).collect();
        mounted.mount.unmount(UnmountMode::Abort).unwrap();
        waiters.iter_mut().for_each(|waiter| assert!(!waiter.wait().unwrap().success()));
        assert!(mounted.mount.wait_timeout(Duration::from_secs(20)), "{uring:?}");
    }
}

/// Look-ups of `slow` take very long, but for who is killed.
struct Slow(Arc<AtomicU32>);

impl Layer for Slow {
    type State = ();

    fn kind(&self) -> &'static str {
        "slow"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn admit(&self, _: &LayerVnode<Self>, caller: &Caller, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Lookup(name) if name.as_bytes() == b"slow" => {
                self.0.fetch_add(1, Ordering::SeqCst);
                let waited = caller.cancellation().sleep(Duration::from_secs(3600));
                self.0.fetch_sub(1, Ordering::SeqCst);
                waited
            }
            _ => Ok(()),
        }
    }
}

/// Among them one inside an execve(2), of which the kernel tells little until that is over.
fn only_a_fatal_signal_ends_the_wait() {
    const HANDLES: &str = "import os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
os.stat(sys.argv[1])";
    for uring in [Uring::Off, Uring::On] {
        let (waiting, options) = (Arc::default(), MountOptions { uring, ..MountOptions::default() });
        let Some(mounted) = mount_with(stack(Slow(Arc::clone(&waiting)), memory()), options) else { return };
        let path = mounted.path("slow");
        let programs: [&[&str]; 3] = [&["stat"], &["python3", "-c", HANDLES], &["env"]];
        for program in programs {
            let mut process = Command::new(program[0]).args(&program[1..]).arg(&path).spawn().unwrap();
            until(|| waiting.load(Ordering::SeqCst) == 1, "it waits");
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(process.try_wait().unwrap(), None, "{program:?} {uring:?}");
            process.kill().unwrap();
            until(|| process.try_wait().unwrap().is_some(), "it is gone");
            until(|| waiting.load(Ordering::SeqCst) == 0, "its worker is free");
        }
        mounted.mount.unmount(UnmountMode::Clean).unwrap();
        assert!(mounted.mount.wait_timeout(Duration::from_secs(20)), "{uring:?}");
    }
}

/// Opens wait until the gate is opened.
struct Gate(Arc<AtomicBool>);

impl Layer for Gate {
    type State = ();

    fn kind(&self) -> &'static str {
        "gate"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn open(&self, vnode: &LayerVnode<Self>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        while !self.0.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        vnode.forward_open(caller, flags)
    }
}

fn extra_workers_end_after_a_burst() {
    const CALLERS: usize = 64;
    for uring in [Uring::Off, Uring::On] {
        let opened = Arc::new(AtomicBool::new(true));
        let options = MountOptions { uring, ..MountOptions::default() };
        let Some(mounted) = mount_with(stack(Gate(Arc::clone(&opened)), memory()), options) else { return };
        fs::write(mounted.path("file"), b"data").unwrap();
        for _ in 0..2 {
            opened.store(false, Ordering::SeqCst);
            std::thread::scope(|scope| {
                (0..CALLERS).for_each(|_| drop(scope.spawn(|| fs::read(mounted.path("file")).unwrap())));
                until(|| mounted.mount.workers() > CALLERS, "each has a worker");
                opened.store(true, Ordering::SeqCst);
            });
            let few = 8 + 5 * std::thread::available_parallelism().unwrap().get();
            until(|| mounted.mount.workers() <= few, "the workers of the burst end");
            exchange_messages_of_all_sizes(&mounted);
            assert!(mounted.mount.workers() <= few + 8, "{uring:?}: {} workers", mounted.mount.workers());
        }
    }
}

/// Set in a process that may have few workers.
const FEW_WORKERS_VARIABLE: &str = "PLYFS_TEST_FEW_WORKERS";

/// In a process of its own, which may have little address space, and so some 60 workers.
fn run_with_few_workers() {
    let test = "both_transports_carry_all_message_sizes_and_release_memory";
    let mut child = Command::new("prlimit");
    child.arg("--as=1500000000").arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    let ended = child.env(FEW_WORKERS_VARIABLE, "1").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (output, errors) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success() && output.contains("1 passed"), "{output}{errors}");
}

/// All that one user asks hangs, from as many processes as there are workers and more; what others ask is answered, on each
/// CPU, and what waited for a worker is served when the first are.
fn one_user_does_not_take_all_workers() {
    const HANGING: u32 = 61_001;
    for uring in [Uring::Off, Uring::On] {
        let opened = Arc::new(AtomicBool::new(true));
        let options = MountOptions { uring, ..MountOptions::default() };
        let Some(mounted) = mount_with(stack(Gate(Arc::clone(&opened)), memory()), options) else { return };
        fs::write(mounted.path("file"), b"data").unwrap();
        for _ in 0..2 {
            opened.store(false, Ordering::SeqCst);
            let mut command = Command::new("cat");
            command.arg(mounted.path("file")).uid(HANGING).gid(HANGING).stdout(Stdio::null());
            let mut hanging: Vec<_> = (0..150).map(|_| command.spawn().unwrap()).collect();
            until(|| mounted.mount.workers() > 24, "many workers are busy");
            std::thread::sleep(Duration::from_secs(1));
            for cpu in 0..std::thread::available_parallelism().unwrap().get() {
                for other in ["one", "two", "three"] {
                    let path = mounted.path(&format!("{other}-{cpu}"));
                    let ask = format!("timeout 30 taskset -c {cpu} ls -l {}; test $? = 2", path.display());
                    assert!(as_user(HANGING + 1, &ask), "{uring:?}: {} workers", mounted.mount.workers());
                }
            }
            assert!(mounted.mount.workers() < 55, "{uring:?}: {} workers", mounted.mount.workers());
            opened.store(true, Ordering::SeqCst);
            hanging.iter_mut().for_each(|process| assert!(process.wait().unwrap().success(), "{uring:?}"));
        }
        exchange_messages_of_all_sizes(&mounted);
    }
}

fn requests_come_through_io_uring_where_it_is_on() {
    let with = |uring| mount_with(memory(), MountOptions { uring, ..MountOptions::default() });
    let Some(on) = with(Uring::On) else { return };
    assert_eq!(on.mount.decisions().uring, Ok(()));
    let off = with(Uring::Off).unwrap();
    assert!(off.mount.decisions().transport().starts_with("/dev/fuse"), "{}", off.mount.decisions().transport());
    for mounted in [on, off] {
        exchange_messages_of_all_sizes(&mounted);
    }
    for uring in [Uring::On, Uring::Off] {
        let options = MountOptions { uring, ..MountOptions::default() };
        let Some(mounted) = mount_with(stack(Failing, memory()), options) else { return };
        for number in [0, -1, -512, 512, 516, 1 << 20, i32::MIN, i32::MAX] {
            // The kernel takes no reply with such a number.
            let error = fs::metadata(mounted.path(&format!("error {number}"))).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{number} {uring:?}");
        }
    }
}

/// Fails look-ups with the number in the name.
struct Failing;

impl Layer for Failing {
    type State = ();

    fn kind(&self) -> &'static str {
        "failing"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        let Operation::Lookup(name) = operation else { return Ok(()) };
        let number = std::str::from_utf8(name.as_bytes()).ok().and_then(|name| name.strip_prefix("error "));
        number.map_or(Ok(()), |number| Err(Errno::new(number.parse().unwrap())))
    }
}

/// Names, data and attributes from none to the most that a message holds, and one byte around where they are handled
/// otherwise.
fn exchange_messages_of_all_sizes(mounted: &Mounted) {
    let path = mounted.path("file");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    for length in [1, 1023, 1024, 1025, 4096, 65_536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20] {
        let data: Vec<u8> = (0..length).map(|number: usize| (number % 251) as u8).collect();
        file.write_all_at(&data, 7).unwrap();
        // Past what the kernel keeps.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut read = vec![0; length];
        file.read_exact_at(&mut read, 7).unwrap();
        assert!(read == data, "{length} bytes");
    }
    for length in [0, 1, 1008, 1009, 1023, 1024, 1025, 4000, 65_536] {
        let value = vec![b'v'; length];
        rustix::fs::setxattr(&path, "user.large", &value, rustix::fs::XattrFlags::empty()).unwrap();
        let mut room = vec![0; 65_536];
        assert_eq!(rustix::fs::getxattr(&path, "user.large", &mut room), Ok(length));
        assert!(room[..length] == value, "{length} bytes");
    }
    for length in [1, 254, 255] {
        let (one, other) = (mounted.path(&"a".repeat(length)), mounted.path(&"b".repeat(length)));
        fs::write(&one, b"").unwrap();
        fs::rename(&one, &other).unwrap();
        fs::remove_file(&other).unwrap();
    }
    for length in [1, 1023, 1024, 1025, 4095] {
        let (link, target) = (mounted.path("link"), "t".repeat(length));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap().as_os_str().len(), length);
        fs::remove_file(&link).unwrap();
    }
}

/// Large reads wait for each other, so that each has a worker of its own.
struct LargeReads(Barrier);

const READERS: usize = 12;
const LARGE: usize = 1 << 20;

impl Layer for LargeReads {
    type State = ();

    fn kind(&self) -> &'static str {
        "gathering"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn read_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if buffer.len() == LARGE {
            self.0.wait();
        }
        file.forward_read_at(caller, offset, buffer)
    }
}

fn memory_of_large_messages_is_released() {
    for uring in [Uring::Off, Uring::On] {
        let options = MountOptions { uring, ..MountOptions::default() };
        let Some(mounted) = mount_with(stack(LargeReads(Barrier::new(READERS)), memory()), options) else { return };
        let path = mounted.path("file");
        fs::write(&path, vec![7; LARGE]).unwrap();
        let before = resident_bytes();
        // Workers come and go.
        for _ in 0..3 {
            let readers: Vec<_> = (0..READERS)
                .map(|_| {
                    let mut reader = Command::new("dd");
                    reader.args(["iflag=direct", "bs=1M", "count=1", "of=/dev/null"]).stderr(Stdio::null());
                    reader.arg(format!("if={}", path.display())).spawn().unwrap()
                })
                .collect();
            assert!(readers.into_iter().all(|mut reader| reader.wait().unwrap().success()));
        }
        // The few that stay to wait on the device keep theirs.
        let enough = before + 6 * LARGE;
        let end = Instant::now() + Duration::from_secs(20);
        while resident_bytes() > enough && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
        let held = resident_bytes();
        assert!(held <= enough, "{uring:?}: {} KiB more than before", (held - before) >> 10);
    }
}

/// What this process occupies in memory (proc_pid_statm(5)).
fn resident_bytes() -> usize {
    procfs::Process::Own.resident_bytes().unwrap().unwrap() as usize
}
