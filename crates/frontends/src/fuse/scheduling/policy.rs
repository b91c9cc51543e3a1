//! Scheduling policies of threads, and counts of voluntary context switches.

use procfs::Process;
use rustix::thread::Pid;
use std::io;
use std::mem::MaybeUninit;

/// The scheduling policy of a thread (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulingPolicy {
    /// SCHED_OTHER: the default policy.
    Other,
    /// SCHED_IDLE: runs when nobody else wants the CPU; its CPU counts as idle.
    Idle,
}

/// Changes the policy of a thread of this process.
///
/// # Errors
/// `EPERM` for the change back to the ordinary policy, without CAP_SYS_NICE or a limit (RLIMIT_NICE) that allows it; `ESRCH`
/// if the thread is gone.
pub(crate) fn set_policy(thread: Pid, policy: SchedulingPolicy) -> io::Result<()> {
    let number = match policy {
        SchedulingPolicy::Other => libc::SCHED_OTHER,
        SchedulingPolicy::Idle => libc::SCHED_IDLE,
    };
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameters during the call, and changes nothing but how a thread is scheduled.
    match unsafe { libc::sched_setscheduler(thread.as_raw_nonzero().get(), number, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns whether the calling thread is under the ordinary policy, and not under one that somebody set.
pub(crate) fn has_default_policy() -> bool {
    // SAFETY: it returns the policy of the calling thread, and changes nothing.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_OTHER }
}

/// Returns how often the calling thread has slept so far, waiting for something (getrusage(2), `ru_nvcsw`).
pub(crate) fn sleep_count() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure, or fails, and then it is not read.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) != 0 {
            return 0;
        }
        usage.assume_init()
    };
    usage.ru_nvcsw as u64
}

/// Returns how often another thread of this process has slept, and whether it is runnable; `None` if it is gone.
pub(crate) fn read_progress(thread: Pid) -> Option<(u64, bool)> {
    let status = Process::ThreadOfOwn(thread.as_raw_nonzero().get().unsigned_abs()).status().ok()??;
    Some((status.voluntary_switches()?, status.state()? == b'R'))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::thread::gettid;
    use std::time::Duration;

    /// Returns the number of the calling thread's policy as reported by the kernel: 5 is SCHED_IDLE.
    pub(crate) fn policy_number() -> u64 {
        Process::OwnThread.stat().unwrap().unwrap().policy().unwrap()
    }

    #[test]
    fn sleeping_is_counted_the_same_from_inside_and_outside() {
        let before = sleep_count();
        std::thread::sleep(Duration::from_millis(1));
        let (seen, wants_to_run) = read_progress(gettid()).unwrap();
        assert!(seen > before && wants_to_run);
        // Reading may have slept too.
        assert!(sleep_count() >= seen);
    }

    #[test]
    fn policy_is_set_and_reset() {
        // In a thread of its own: without privileges the change cannot be undone.
        let thread = std::thread::spawn(|| {
            assert!(has_default_policy());
            set_policy(gettid(), SchedulingPolicy::Idle).unwrap();
            assert!(!has_default_policy());
            assert_eq!(policy_number(), 5);
            if rustix::process::geteuid().is_root() {
                set_policy(gettid(), SchedulingPolicy::Other).unwrap();
                assert_eq!(policy_number(), 0);
            }
        });
        thread.join().unwrap();
    }
}
