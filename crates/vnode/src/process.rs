//! What the kernel tells of a process that calls, without waiting for it: it may be inside an execve(2) that waits for us.
//!
//! capget(2), /proc/PID/uid_map and /proc/PID/status take no lock that such a process holds; /proc/PID/ns/user does.

use std::cell::RefCell;
use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::CapabilitySet;

use crate::{Errno, Result};

/// The effective capabilities of a process, or thread, in the user namespace of the server, as it acts with the user id 0: none
/// if it is in another namespace.
///
/// `None` where they are not what it acts with: it is gone, or the kernel acts by it for somebody else, as overlayfs does for
/// whoever mounted it. A process waits for the answer to all that permissions are asked for, also when it is killed; what it
/// may leave behind is the reading and writing of open files.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked up now.
pub(crate) fn capabilities(pid: u32) -> Result<Option<u64>> {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let effective = match rustix::thread::capabilities(Some(process)) {
        Ok(sets) => sets.effective,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(Errno::new(error.raw_os_error())),
    };
    match is_in_own_namespace(pid)? {
        Some(true) if effective.contains(OF_SUPERUSER) => Ok(Some(effective.bits())),
        Some(is_own) => as_superuser(pid, if is_own { effective } else { CapabilitySet::empty() }),
        None => Ok(None),
    }
}

/// Whether a process has a capability in its user namespace, whichever that is. Not if it is gone.
pub(crate) fn has_in_any_namespace(pid: u32, capability: CapabilitySet) -> bool {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    process.is_some() && rustix::thread::capabilities(process).is_ok_and(|sets| sets.effective.contains(capability))
}

/// What the superuser has everywhere: CAP_DAC_READ_SEARCH, which containers lack, is a part of CAP_DAC_OVERRIDE.
pub(crate) const OF_SUPERUSER: CapabilitySet =
    CapabilitySet::CHOWN.union(CapabilitySet::DAC_OVERRIDE).union(CapabilitySet::FOWNER).union(CapabilitySet::FSETID);

/// Looks closer at a process that seems to have fewer capabilities than a superuser.
fn as_superuser(pid: u32, effective: CapabilitySet) -> Result<Option<u64>> {
    let Some(status) = of_process(pid, "status")? else { return Ok(None) };
    let field = |key| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let is_own_thread = field("Tgid:").trim().parse() == Ok(std::process::id());
    let file_system_uid = field("Uid:").split_ascii_whitespace().nth(3);
    match file_system_uid {
        // Threads of the server put theirs aside while they act for others, and take on their ids.
        _ if is_own_thread => Ok(u64::from_str_radix(field("CapPrm:").trim(), 16).ok()),
        Some("0") => Ok(Some(effective.bits())),
        _ => Ok(None),
    }
}

/// Whether a process is in the server's user namespace, by the map of its user ids; `None` if it is gone. Asked at most once a
/// second by each thread: a process that has just made a namespace with a user 0 who is the machine's may count as that for so
/// long.
fn is_in_own_namespace(pid: u32) -> Result<Option<bool>> {
    const VALID: Duration = Duration::from_secs(1);
    type Remembered = Option<(u32, Instant, bool)>;
    thread_local! {
        static REMEMBERED: RefCell<[Remembered; 8]> = const { RefCell::new([None; 8]) };
    }
    REMEMBERED.with_borrow_mut(|remembered| {
        let place = &mut remembered[pid as usize % remembered.len()];
        match *place {
            Some((whose, when, is_own)) if whose == pid && when.elapsed() < VALID => Ok(Some(is_own)),
            _ => {
                let is_own = has_own_map(pid)?;
                *place = is_own.map(|is_own| (pid, Instant::now(), is_own));
                Ok(is_own)
            }
        }
    })
}

fn has_own_map(pid: u32) -> Result<Option<bool>> {
    static OWN: LazyLock<Option<String>> = LazyLock::new(|| fs::read_to_string("/proc/self/uid_map").ok());
    match &*OWN {
        Some(own) => Ok(of_process(pid, "uid_map")?.map(|map| map == *own)),
        // Without /proc, or in a kernel without user namespaces.
        None => Ok(Some(true)),
    }
}

/// What becomes of a thread that waits in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on with what its call returns; also where it cannot be looked up.
    Alive,
    /// It ends before it sees what its call returns.
    Dying,
    /// There is no such thread.
    Gone,
}

/// What becomes of a thread, by the signals that are pending.
pub(crate) fn fate(thread: u32) -> Fate {
    match of_process(thread, "status") {
        Ok(Some(status)) if is_dying(&status) => Fate::Dying,
        Ok(None) => Fate::Gone,
        _ => Fate::Alive,
    }
}

/// Whether the thread with this status is being killed. The kernel makes every signal that ends a process SIGKILL, pending for
/// each of its threads, but those that dump core first: these stay what they are, and whoever debugs it has a say in them.
fn is_dying(status: &str) -> bool {
    const KILL: u64 = mask(&[libc::SIGKILL]);
    const DUMPING: u64 = mask(&[
        libc::SIGQUIT,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGSYS,
    ]);
    let field = |key| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim();
    let signals = |key| u64::from_str_radix(field(key), 16).unwrap_or(0);
    let pending = signals("SigPnd:") | signals("ShdPnd:");
    let kept = signals("SigBlk:") | signals("SigIgn:") | signals("SigCgt:");
    pending & KILL != 0 || (pending & DUMPING & !kept != 0 && field("TracerPid:") == "0")
}

/// The set of some signals, as /proc writes it.
const fn mask(signals: &[i32]) -> u64 {
    let (mut mask, mut index) = (0, 0);
    while index < signals.len() {
        mask |= 1 << (signals[index] - 1);
        index += 1;
    }
    mask
}

/// A file of a process in /proc; `None` if the process is gone, or there is no /proc.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`.
pub(crate) fn of_process(pid: u32, file: &str) -> Result<Option<String>> {
    match fs::read_to_string(format!("/proc/{pid}/{file}")).map_err(Errno::from) {
        Ok(content) => Ok(Some(content)),
        Err(error @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => Err(error),
        Err(_) => Ok(None),
    }
}
