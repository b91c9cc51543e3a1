//! Acting with the caller's credentials: file system ids, supplementary groups and umask of the calling thread.
//!
//! They stay as they were set until the next operation on the same thread needs others: most operations in a row are of
//! one user. Only file system ids change, never the effective ones, so a thread keeps its other capabilities; what those
//! would allow a caller beyond Linux's rules for its user is refused where it matters (extended attributes).

use std::cell::RefCell;
use std::sync::Arc;

use vnode::{Caller, Errno, Result};

use super::{errno, system};

/// How a base acts for its callers.
#[derive(Clone, Copy, Debug)]
pub struct Credentials {
    switches: bool,
}

/// What this thread's credentials are now, as far as they have been set or asked for.
struct Current {
    ids: Option<(u32, u32)>,
    groups: Option<Arc<[u32]>>,
    umask: Option<u32>,
}

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current { ids: None, groups: None, umask: None }) };
}

impl Credentials {
    /// Acts with the callers' credentials if the process may: as root with CAP_SETUID and CAP_SETGID. Otherwise acts as
    /// the user that it runs as.
    pub fn probe() -> Self {
        const SET_IDS: u64 = 1 << 6 | 1 << 7;
        let root = rustix::process::geteuid().is_root();
        Self { switches: root && effective_capabilities() & SET_IDS == SET_IDS }
    }

    /// Whether the callers' credentials are taken on.
    pub fn switches(self) -> bool {
        self.switches
    }

    /// Takes on the caller's ids and groups, or the server's for its own work.
    pub fn assume(self, caller: &Caller) -> Result<()> {
        if !self.switches {
            return Ok(());
        }
        CURRENT.with_borrow_mut(|current| match caller {
            Caller { server: true, .. } => current.set_ids(0, 0),
            Caller { uid: 0, gid, .. } => current.set_ids(0, *gid),
            Caller { uid, gid, .. } => {
                current.set_groups(caller.groups())?;
                current.set_ids(*uid, *gid)
            }
        })
    }

    /// Takes on the caller's ids, groups and umask, for an operation that creates something.
    pub fn assume_for_creation(self, caller: &Caller) -> Result<()> {
        CURRENT.with_borrow_mut(|current| current.set_umask(caller.umask))?;
        self.assume(caller)
    }

    /// Takes the server's user id back, and with it the capabilities to open by handle and to override permissions.
    pub fn become_server(self) -> Result<()> {
        if !self.switches {
            return Ok(());
        }
        CURRENT.with_borrow_mut(|current| {
            let gid = current.ids().1;
            current.set_ids(0, gid)
        })
    }
}

/// Gives the calling thread the process's own file system ids back. For code that shares threads with this base and
/// opens files of its own.
pub fn restore_thread_credentials() {
    CURRENT.with_borrow_mut(|current| {
        if current.ids.is_some() && rustix::process::geteuid().is_root() {
            // Back to root is always allowed to a process whose effective user is root.
            let _ = current.set_ids(0, rustix::process::getegid().as_raw());
        }
    });
}

impl Current {
    /// The ids now. A new thread has those of the thread that made it, whatever they were then.
    fn ids(&mut self) -> (u32, u32) {
        *self.ids.get_or_insert_with(system::file_system_ids)
    }

    fn set_ids(&mut self, uid: u32, gid: u32) -> Result<()> {
        let now = self.ids();
        if now == (uid, gid) {
            return Ok(());
        }
        // Forgotten until both are known to be set: ids outside the user namespace are refused without an error.
        self.ids = None;
        if (now.1 != gid && !system::set_file_system_gid(gid)) || (now.0 != uid && !system::set_file_system_uid(uid)) {
            return Err(Errno::EPERM);
        }
        self.ids = Some((uid, gid));
        Ok(())
    }

    fn set_groups(&mut self, groups: &Arc<[u32]>) -> Result<()> {
        if self.groups.as_ref().is_some_and(|now| now == groups) {
            return Ok(());
        }
        self.groups = None;
        system::set_thread_groups(groups).map_err(errno)?;
        self.groups = Some(Arc::clone(groups));
        Ok(())
    }

    fn set_umask(&mut self, umask: u32) -> Result<()> {
        let umask = umask & 0o777;
        if self.umask == Some(umask) {
            return Ok(());
        }
        if self.umask.is_none() {
            system::unshare_umask().map_err(errno)?;
        }
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
        self.umask = Some(umask);
        Ok(())
    }
}

/// The process's effective capabilities; none where /proc does not tell.
fn effective_capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
