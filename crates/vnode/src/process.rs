//! What the kernel tells of a process that calls, without waiting for it: it may be inside an execve(2) that waits for us.
//!
//! capget(2) and /proc/PID/uid_map take no lock that such a process holds; /proc/PID/ns/user does.

use std::cell::RefCell;
use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// The effective capabilities of a process, or thread, in the user namespace of the server; none if it is in another one, or
/// gone.
pub(crate) fn capabilities(pid: u32) -> u64 {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match rustix::thread::capabilities(process) {
        Ok(sets) if process.is_some() && is_in_own_namespace(pid) => sets.effective.bits(),
        _ => 0,
    }
}

/// Whether a process is in the server's user namespace, by the map of its user ids. Asked at most once a second by each
/// thread: a process that has just made a namespace with a user 0 who is the machine's may count as that for so long.
fn is_in_own_namespace(pid: u32) -> bool {
    const VALID: Duration = Duration::from_secs(1);
    type Remembered = Option<(u32, Instant, bool)>;
    thread_local! {
        static REMEMBERED: RefCell<[Remembered; 8]> = const { RefCell::new([None; 8]) };
    }
    REMEMBERED.with_borrow_mut(|remembered| {
        let place = &mut remembered[pid as usize % remembered.len()];
        match *place {
            Some((whose, when, is_own)) if whose == pid && when.elapsed() < VALID => is_own,
            _ => {
                let is_own = has_own_map(pid);
                *place = Some((pid, Instant::now(), is_own));
                is_own
            }
        }
    })
}

fn has_own_map(pid: u32) -> bool {
    static OWN: LazyLock<Option<String>> = LazyLock::new(|| fs::read_to_string("/proc/self/uid_map").ok());
    match &*OWN {
        Some(own) => fs::read_to_string(format!("/proc/{pid}/uid_map")).is_ok_and(|map| map == *own),
        // Without /proc, or in a kernel without user namespaces.
        None => true,
    }
}
