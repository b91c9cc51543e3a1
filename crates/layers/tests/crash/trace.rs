//! Runs a process that stops itself, from there on one system call at a time, and ends it before a chosen one.

use std::io::Error;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What became of the process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was killed before the chosen system call.
    Killed,
    /// It came to its own end before that, with this many system calls that count and this exit code.
    Exited {
        /// How many it had made.
        calls: usize,
        /// What it ended with.
        code: i32,
    },
}

/// Keeps this thread, and the processes that it runs, on one processor, each thread on the next. There a union has nobody else
/// do a part of its work, so that its calls come in one order; and to stop at each costs less.
pub(crate) fn stay_on_one_processor() {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let allowed = sched_getaffinity(None).expect("a thread may ask where it runs");
    let mut processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).cycle();
    let mut one = CpuSet::new();
    one.set(processors.nth(THREADS.fetch_add(1, Ordering::Relaxed)).expect("it runs somewhere"));
    sched_setaffinity(None, &one).expect("a thread may run on fewer processors");
}

/// Begins to be traced by the parent, and stops: the next system call is the first that is counted. For the thread that
/// then does what is looked at, of a process that [`run`] has started.
pub(crate) fn begin() {
    // SAFETY: neither call takes a pointer that is used.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), 0, "{}", Error::last_os_error());
        libc::raise(libc::SIGSTOP);
    }
}

/// Ends the process: the last system call, and the only one that is not counted.
pub(crate) fn end(code: i32) -> ! {
    // SAFETY: nothing needs to be undone in a process that exists for one operation.
    unsafe { libc::_exit(code) }
}

/// Calls that change no file system: before and after one the branches are the same.
const HARMLESS: [libc::c_long; 36] = [
    libc::SYS_brk,
    libc::SYS_close,
    libc::SYS_clock_gettime,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fcntl,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_futex,
    libc::SYS_getdents64,
    libc::SYS_geteuid,
    libc::SYS_getrandom,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_name_to_handle_at,
    libc::SYS_newfstatat,
    libc::SYS_open_by_handle_at,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgroups,
    libc::SYS_statx,
    libc::SYS_sched_yield,
    libc::SYS_umask,
];

/// Every call.
pub(crate) fn any(_: libc::c_long) -> bool {
    true
}

/// Calls that may change a file system.
pub(crate) fn changes(call: libc::c_long) -> bool {
    !HARMLESS.contains(&call)
}

/// Runs the command, which is to call [`begin`], and kills it instead of the N-th (from 1) of those system calls after that
/// which count.
#[allow(clippy::zombie_processes, reason = "it is waited for by its number, as a process that is traced")]
pub(crate) fn run(command: &mut Command, calls_max: usize, counts: fn(libc::c_long) -> bool) -> End {
    let child = command.spawn().expect("the test runs itself");
    let leader = child.id() as libc::pid_t;
    let thread = loop {
        let (thread, status) = wait(-1);
        if libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGSTOP {
            break thread;
        }
        assert!(thread != leader || libc::WIFSTOPPED(status), "the process ended before it began: {status:#x}");
    };
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SETOPTIONS, thread, options as usize);
    let mut calls = 0;
    loop {
        request(libc::PTRACE_SYSCALL, thread, 0);
        let (_, status) = wait(thread);
        assert!(libc::WIFSTOPPED(status), "the process ended by itself: {status:#x}");
        if libc::WSTOPSIG(status) != libc::SIGTRAP | 0x80 {
            continue;
        }
        match stopped_at(thread) {
            None => {}
            Some(libc::SYS_exit_group) => break,
            Some(call) if !counts(call) => {}
            Some(_) if calls + 1 == calls_max => {
                kill(leader, thread);
                return End::Killed;
            }
            Some(_) => calls += 1,
        }
    }
    request(libc::PTRACE_DETACH, thread, 0);
    let (_, status) = wait(leader);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    End::Exited { calls, code: libc::WEXITSTATUS(status) }
}

/// The number of the system call that the thread is about to make; `None` if it has just made one.
fn stopped_at(thread: libc::pid_t) -> Option<libc::c_long> {
    // SAFETY: the structure is plain data, and zero is a value of each of its fields.
    let mut information: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of_val(&information);
    // SAFETY: the kernel writes at most `size` bytes to the structure, which outlives the call.
    let written = unsafe {
        libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, size, (&raw mut information).cast::<libc::c_void>())
    };
    assert!(written > 0, "{}", Error::last_os_error());
    if information.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return None;
    }
    // SAFETY: on entry this is the field that was written.
    Some(unsafe { information.u.entry.nr } as libc::c_long)
}

/// Ends the process, whose thread stands before a system call, which is not made.
fn kill(leader: libc::pid_t, thread: libc::pid_t) {
    // SAFETY: a signal to our own child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(leader, libc::SIGKILL) }, 0, "{}", Error::last_os_error());
    let mut threads = vec![thread];
    threads.extend((thread != leader).then_some(leader));
    for thread in threads {
        while libc::WIFSTOPPED(wait(thread).1) {}
    }
}

fn request(what: libc::c_uint, thread: libc::pid_t, argument: usize) {
    // SAFETY: none of the requests made here reads or writes memory of ours.
    let result = unsafe { libc::ptrace(what, thread, 0_usize, argument) };
    assert_eq!(result, 0, "request {what}: {}", Error::last_os_error());
}

fn wait(process: libc::pid_t) -> (libc::pid_t, libc::c_int) {
    let mut status = 0;
    // Only children of this thread: those of other tests are not ours.
    // SAFETY: the status outlives the call.
    let found = unsafe { libc::waitpid(process, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    assert!(found > 0, "{}", Error::last_os_error());
    (found, status)
}
