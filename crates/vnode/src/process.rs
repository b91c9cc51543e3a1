//! Kernel state of a calling process, read without waiting for it: it may be inside an execve(2) that waits for us.
//!
//! capget(2), /proc/PID/uid_map, /proc/PID/status and /proc/PID/mountinfo take no lock that such a process holds;
//! /proc/PID/ns/user does.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use procfs::{IdKind, IdMap, Ids, Process, SignalSet, Status};
use rustix::process::Pid;
use rustix::thread::CapabilitySet;

use crate::process_files::unless_short;
use crate::{Errno, Result, overlays, process_files};

/// Returns the effective capabilities of a process or thread in the server's user namespace when it acts with user ID
/// 0: none if it is in another namespace.
///
/// `None` if these are not what it acts with: it is gone, or the kernel may act through it on behalf of another, as an
/// overlayfs mount does for its mounter. A process waits for the reply to every operation that checks permissions, even
/// while it is killed; only reads and writes of open files may outlive it.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`: the lookup is not possible at present.
pub(crate) fn capabilities(pid: u32) -> Result<Option<u64>> {
    capabilities_beside(pid, |is_in_own_namespace| overlays::may_ask_by(pid, is_in_own_namespace))
}

/// As [`capabilities`], with a function that reports whether overlays may act through the process, which is in the
/// server's user namespace or not.
fn capabilities_beside(pid: u32, overlay_may_act: impl FnOnce(bool) -> Result<bool>) -> Result<Option<u64>> {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let effective = match rustix::thread::capabilities(Some(process)) {
        Ok(sets) => sets.effective,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(Errno::new(error.raw_os_error())),
    };
    let Some(is_own) = is_in_own_namespace(pid, effective)? else { return Ok(None) };
    if is_own && effective.contains(OF_SUPERUSER) {
        return Ok(Some(effective.bits()));
    }
    let Some(status) = process_files::status(pid)? else { return Ok(None) };
    if status.process() == Some(std::process::id()) {
        // Threads of the server drop their effective capabilities while they act for others, and take on the IDs of
        // those.
        Ok(status.permitted_capabilities())
    } else if status.uids().is_none_or(|ids| ids.file_system != 0) && overlay_may_act(is_own)? {
        Ok(None)
    } else {
        let own = if is_own { acting_as_superuser(&status, effective) } else { CapabilitySet::empty() };
        Ok(Some(own.bits()))
    }
}

/// Returns whether a process has a capability in its user namespace, whichever that is. False if it is gone.
pub(crate) fn has_in_any_namespace(pid: u32, capability: CapabilitySet) -> bool {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    process.is_some() && rustix::thread::capabilities(process).is_ok_and(|sets| sets.effective.contains(capability))
}

/// Capabilities that the superuser has everywhere: CAP_DAC_READ_SEARCH, which containers lack, is part of
/// CAP_DAC_OVERRIDE.
pub(crate) const OF_SUPERUSER: CapabilitySet =
    CapabilitySet::CHOWN.union(CapabilitySet::DAC_OVERRIDE).union(CapabilitySet::FOWNER).union(CapabilitySet::FSETID);

/// Returns the capabilities that a process with these effective capabilities has in a request with user ID 0. A process of
/// another user makes such a request by access(2), which checks for the real user, who has all that are permitted; in a core
/// dump; or with credentials that another process has lent it through an io_uring, whose capabilities cannot be determined: they
/// count as none.
fn acting_as_superuser(status: &Status, effective: CapabilitySet) -> CapabilitySet {
    match (status.permitted_capabilities(), status.uids()) {
        (Some(permitted), Some(Ids { real: 0, file_system: 1.., .. })) => CapabilitySet::from_bits_retain(permitted),
        _ => effective,
    }
}

/// Maximum time for which a result of [`is_in_own_namespace`] is reused.
const VALID: Duration = Duration::from_millis(1);

/// Result of a lookup: whether a process was in the server's user namespace, and with which effective capabilities.
#[derive(Clone, Copy)]
struct NamespaceLookup {
    pid: u32,
    when: Instant,
    is_own: bool,
    effective: CapabilitySet,
}

impl NamespaceLookup {
    /// Returns whether the result still holds for a process that has these effective capabilities now. Creating or
    /// entering a namespace gives a process all capabilities there, so a result no longer holds once the process has
    /// any that it did not have.
    fn holds(&self, pid: u32, effective: CapabilitySet) -> bool {
        self.pid == pid && self.effective.contains(effective) && self.when.elapsed() < VALID
    }
}

/// Returns whether a process with these effective capabilities is in the server's user namespace, by its user ID map;
/// `None` if it is gone. This is looked up at most once a millisecond, unless the process has gained capabilities since.
/// So only a process that had the same capabilities in the server's namespace can count as being there after it has
/// left, and for no longer than that.
fn is_in_own_namespace(pid: u32, effective: CapabilitySet) -> Result<Option<bool>> {
    static LOOKUPS: [Mutex<Option<NamespaceLookup>>; 64] = [const { Mutex::new(None) }; 64];
    let place = || LOOKUPS[pid as usize % LOOKUPS.len()].lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lookup) = place().filter(|lookup| lookup.holds(pid, effective)) {
        return Ok(Some(lookup.is_own));
    }
    let when = Instant::now();
    let is_own = has_own_map(pid)?;
    *place() = is_own.map(|is_own| NamespaceLookup { pid, when, is_own, effective });
    Ok(is_own)
}

fn has_own_map(pid: u32) -> Result<Option<bool>> {
    static OWN: LazyLock<Option<IdMap>> = LazyLock::new(|| Process::Own.id_map(IdKind::User).ok().flatten());
    match &*OWN {
        Some(own) => Ok(unless_short(Process::Numbered(pid).id_map(IdKind::User))?.map(|map| map == *own)),
        // Without /proc, or in a kernel without user namespaces.
        None => Ok(Some(true)),
    }
}

/// Fate of a thread that waits in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The thread continues with the result of its call; also if it cannot be looked up.
    Alive,
    /// The thread ends before it sees the result of its call.
    Dying,
    /// No such thread exists.
    Gone,
}

/// Returns the fate of a thread, by its pending signals.
pub(crate) fn fate(thread: u32) -> Fate {
    match process_files::status(thread) {
        Ok(Some(status)) if is_dying(&status) => Fate::Dying,
        Ok(None) => Fate::Gone,
        _ => Fate::Alive,
    }
}

/// Returns whether the thread with this status is being killed. The kernel turns every signal that ends a process into
/// a SIGKILL that is pending for each of its threads, except for those that dump core first: these stay what they are,
/// and a debugger can intervene.
fn is_dying(status: &Status) -> bool {
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
    let signals = |set| status.signals(set).unwrap_or(0);
    let pending = signals(SignalSet::PendingForThread) | signals(SignalSet::PendingForProcess);
    let kept = signals(SignalSet::Blocked) | signals(SignalSet::Ignored) | signals(SignalSet::Caught);
    pending & KILL != 0 || (pending & DUMPING & !kept != 0 && status.tracer() == Some(0))
}

/// Returns the mask of these signals, in the format of /proc.
const fn mask(signals: &[i32]) -> u64 {
    let (mut mask, mut index) = (0, 0);
    while index < signals.len() {
        mask |= 1 << (signals[index] - 1);
        index += 1;
    }
    mask
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Child, Command};

    use super::*;

    /// Starts this program with changed privileges, and returns once it is executed.
    fn start(privileges: &[&str], program: &[&str]) -> Child {
        let process = Command::new("setpriv").args(privileges).args(program).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while Process::Numbered(process.id()).name().unwrap().unwrap() != program[0].as_bytes() {
            assert!(Instant::now() < deadline, "it does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        process
    }

    fn may_start_others() -> bool {
        let may = rustix::process::geteuid().is_root();
        if !may {
            eprintln!("skipped: starting processes with other ids and capabilities needs root");
        }
        may
    }

    fn is_superuser(process: &Child) -> bool {
        capabilities(process.id())
            .unwrap()
            .is_some_and(|found| CapabilitySet::from_bits_retain(found).contains(OF_SUPERUSER))
    }

    fn namespace(process: Process) -> Option<std::ffi::OsString> {
        process.namespace("user").ok().flatten()
    }

    /// Queries continuously, so that a result is always cached, until the process is in its namespace.
    fn ask_until_it_leaves(process: &Child, go: &std::path::Path) -> Vec<bool> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut answers = Vec::new();
        while namespace(Process::Numbered(process.id())) == namespace(Process::Own) {
            assert!(Instant::now() < deadline, "no namespace was made");
            answers.push(is_superuser(process));
            if answers.len() == 1000 {
                fs::write(go, "").unwrap();
            }
        }
        answers
    }

    #[test]
    fn a_namespace_of_its_own_makes_nobody_a_superuser() {
        if !may_start_others() {
            return;
        }
        let go = std::env::temp_dir().join(format!("plyfs-namespace-test-{}", std::process::id()));
        let without: &[&str] = &["--bounding-set=-all", "--inh-caps=-all"];
        for (privileges, was_superuser) in [(without, false), (&["--inh-caps=-all"], true)] {
            let script =
                format!("until test -e {}; do sleep 0.05; done; exec unshare -U --keep-caps sleep 60", go.display());
            let mut process = start(privileges, &["sh", "-c", &script]);
            let before = ask_until_it_leaves(&process, &go);
            if was_superuser {
                std::thread::sleep(VALID);
            }
            let after = is_superuser(&process);
            let has_all = rustix::thread::capabilities(Pid::from_raw(process.id() as i32)).unwrap().effective;
            process.kill().unwrap();
            process.wait().unwrap();
            fs::remove_file(&go).unwrap();
            assert!(was_superuser || !before.contains(&true), "without capabilities");
            assert!(has_all.contains(OF_SUPERUSER), "it has them in its own namespace");
            assert!(!after, "{privileges:?}");
        }
    }
    /// Returns the capabilities, given whether an overlay may act through the process.
    fn found(process: &Child, overlay_may_act: bool) -> Option<u64> {
        capabilities_beside(process.id(), |_| Ok(overlay_may_act)).unwrap()
    }

    /// An overlayfs mount makes requests with other IDs than those of the process that it acts through; credentials
    /// lent through an io_uring do the same.
    #[test]
    fn only_an_overlay_acts_for_a_superuser_by_any_process() {
        if !may_start_others() {
            return;
        }
        let mut process = start(&["--reuid", "65534"], &["sleep", "60"]);
        let (by_overlay, else_found) = (found(&process, true), found(&process, false));
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!((by_overlay, else_found), (None, Some(0)));
    }

    /// As access(2) in a program that is set-user-ID to another user, run by the superuser.
    #[test]
    fn a_process_that_asks_for_its_real_user_has_what_that_may_use() {
        if !may_start_others() {
            return;
        }
        let other = ["--euid", "65534"];
        let without = ["--euid", "65534", "--bounding-set=-all", "--inh-caps=-all"];
        for (privileges, has_any) in [(&other[..], true), (&without[..], false)] {
            let mut process = start(privileges, &["sleep", "60"]);
            let status = Process::Numbered(process.id()).status().unwrap().unwrap();
            let found = found(&process, false);
            process.kill().unwrap();
            process.wait().unwrap();
            assert_eq!(found, status.permitted_capabilities(), "{status:?}");
            assert_eq!(found != Some(0), has_any, "{status:?}");
        }
    }
}
