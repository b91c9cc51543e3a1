//! What the kernel tells of a process that calls, without waiting for it: it may be inside an execve(2) that waits for us.
//!
//! capget(2), /proc/PID/uid_map, /proc/PID/status and /proc/PID/mountinfo take no lock that such a process holds;
//! /proc/PID/ns/user does.

use std::cell::RefCell;
use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::CapabilitySet;

use crate::process_files::of_process;
use crate::{Errno, Result, overlays};

/// The effective capabilities of a process, or thread, in the user namespace of the server, as it acts with the user id 0: none
/// if it is in another namespace.
///
/// `None` where they are not what it acts with: it is gone, or the kernel may act by it for somebody else, as an overlay does for
/// whoever mounted it. A process waits for the answer to all that permissions are asked for, also when it is killed; what it
/// may leave behind is the reading and writing of open files.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked up now.
pub(crate) fn capabilities(pid: u32) -> Result<Option<u64>> {
    capabilities_beside(pid, |is_in_own_namespace| overlays::may_ask_by(pid, is_in_own_namespace))
}

/// As [`capabilities`], with what tells of overlays that may act by the process, which is in the server's user namespace or not.
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
    let Some(status) = of_process(pid, "status")? else { return Ok(None) };
    let status = Status::parse(&status);
    if status.is_of_server {
        // Threads of the server put theirs aside while they act for others, and take on their ids.
        Ok(status.permitted)
    } else if status.file_system_uid != Some(0) && overlay_may_act(is_own)? {
        Ok(None)
    } else {
        let own = if is_own { status.acting_as_superuser(effective) } else { CapabilitySet::empty() };
        Ok(Some(own.bits()))
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

/// What /proc/PID/status tells of a process.
struct Status {
    /// It is a thread of this process.
    is_of_server: bool,
    uid: Option<u32>,
    file_system_uid: Option<u32>,
    permitted: Option<u64>,
}

impl Status {
    fn parse(status: &str) -> Self {
        let field = |key| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim();
        let uid = |index| field("Uid:").split_ascii_whitespace().nth(index)?.parse().ok();
        Self {
            is_of_server: field("Tgid:").parse() == Ok(std::process::id()),
            uid: uid(0),
            file_system_uid: uid(3),
            permitted: u64::from_str_radix(field("CapPrm:"), 16).ok(),
        }
    }

    /// What a process with these effective capabilities has as it asks with the user id 0. As another user it does so by
    /// access(2), which asks for the real user, whose are all that are permitted; in a dump of its memory; or with credentials
    /// that somebody has lent it through an io_uring, whose capabilities nobody can tell: they count as none.
    fn acting_as_superuser(&self, effective: CapabilitySet) -> CapabilitySet {
        match self.permitted {
            Some(permitted) if self.file_system_uid != Some(0) && self.uid == Some(0) => {
                CapabilitySet::from_bits_retain(permitted)
            }
            _ => effective,
        }
    }
}

/// Looked-up answers of [`is_in_own_namespace`] are used again for at most this long.
const VALID: Duration = Duration::from_millis(1);

/// Whether a process was in the server's user namespace when that was looked up, and with which effective capabilities.
#[derive(Clone, Copy)]
struct NamespaceLookup {
    pid: u32,
    when: Instant,
    is_own: bool,
    effective: CapabilitySet,
}

impl NamespaceLookup {
    /// Whether it still holds for a process that has these effective capabilities now. Making or entering a namespace gives a
    /// process all capabilities there, so an answer holds no longer once it has any that it did not have.
    fn holds(&self, pid: u32, effective: CapabilitySet) -> bool {
        self.pid == pid && self.effective.contains(effective) && self.when.elapsed() < VALID
    }
}

/// Whether a process with these effective capabilities is in the server's user namespace, by the map of its user ids; `None` if
/// it is gone. Each thread asks at most once a millisecond, unless the process has got capabilities since. So only a process that
/// had the same capabilities in the server's namespace can count as being there after it has left, and for no longer than that.
fn is_in_own_namespace(pid: u32, effective: CapabilitySet) -> Result<Option<bool>> {
    thread_local! {
        static REMEMBERED: RefCell<[Option<NamespaceLookup>; 8]> = const { RefCell::new([None; 8]) };
    }
    REMEMBERED.with_borrow_mut(|remembered| {
        let place = &mut remembered[pid as usize % remembered.len()];
        match *place {
            Some(lookup) if lookup.holds(pid, effective) => Ok(Some(lookup.is_own)),
            _ => {
                let when = Instant::now();
                let is_own = has_own_map(pid)?;
                *place = is_own.map(|is_own| NamespaceLookup { pid, when, is_own, effective });
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

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A process that runs this with changed privileges, when it has come so far.
    fn start(privileges: &[&str], program: &[&str]) -> Child {
        let process = Command::new("setpriv").args(privileges).args(program).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while fs::read_to_string(format!("/proc/{}/comm", process.id())).unwrap().trim() != program[0] {
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

    fn namespace(process: &str) -> Option<std::path::PathBuf> {
        fs::read_link(format!("/proc/{process}/ns/user")).ok()
    }

    /// Asks all the time, so that an answer is always remembered, until the process is in its namespace.
    fn ask_until_it_leaves(process: &Child, go: &std::path::Path) -> Vec<bool> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut answers = Vec::new();
        while namespace(&process.id().to_string()) == namespace("self") {
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
    /// With this answer to whether an overlay may act by it.
    fn found(process: &Child, overlay_may_act: bool) -> Option<u64> {
        capabilities_beside(process.id(), |_| Ok(overlay_may_act)).unwrap()
    }

    /// Overlays ask with the ids of somebody else than the process that they are asked by; credentials lent through an io_uring do
    /// the same.
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

    /// As access(2) of a program that is set-uid to another user does when the superuser runs it.
    #[test]
    fn a_process_that_asks_for_its_real_user_has_what_that_may_use() {
        if !may_start_others() {
            return;
        }
        let other = ["--euid", "65534"];
        let without = ["--euid", "65534", "--bounding-set=-all", "--inh-caps=-all"];
        for (privileges, has_any) in [(&other[..], true), (&without[..], false)] {
            let mut process = start(privileges, &["sleep", "60"]);
            let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
            let found = found(&process, false);
            process.kill().unwrap();
            process.wait().unwrap();
            assert_eq!(found, Status::parse(&status).permitted, "{status}");
            assert_eq!(found != Some(0), has_any, "{status}");
        }
    }
}
