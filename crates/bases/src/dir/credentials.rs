//! Acting with the caller's credentials: file system ids, supplementary groups, capabilities and umask of the calling
//! thread.
//!
//! They stay as they were set until the next operation on the same thread needs others: most operations in a row are of
//! one user. Only file system ids change, never the effective ones, and with them the kernel takes the capabilities away
//! that concern permissions (capabilities(7), effect of user ID changes); those of the others that a user must not have are
//! taken away here. What those that stay would allow a caller beyond Linux's rules for its user is refused where it matters
//! (extended attributes).

use std::cell::RefCell;
use std::sync::Arc;

use rustix::thread::CapabilitySet;
use vnode::{Caller, Errno, Result};

use super::capabilities::{self, OF_PERMISSIONS, Powers};
use super::{errno, system};

/// How a base acts for its callers.
#[derive(Clone, Copy, Debug)]
pub struct Credentials {
    switches: bool,
    /// The process is in a user namespace in which nobody can change groups (user_namespaces(7)): all have its own.
    keeps_groups: bool,
    powers: Powers,
}

/// What this thread's credentials are now, as far as they have been set or asked for.
struct Current {
    ids: Option<(u32, u32)>,
    groups: Option<Arc<[u32]>>,
    umask: Option<u32>,
    /// The effective capabilities, those included that are away while the user id is not 0.
    capabilities: Option<CapabilitySet>,
}

thread_local! {
    static CURRENT: RefCell<Current> =
        const { RefCell::new(Current { ids: None, groups: None, umask: None, capabilities: None }) };
}

impl Credentials {
    /// Acts with the callers' credentials if the process may: as root with CAP_SETUID and CAP_SETGID. Otherwise acts as
    /// the user that it runs as.
    pub fn probe() -> Self {
        let powers = Powers::of_this_process();
        let switches = rustix::process::geteuid().is_root() && powers.may_set_ids();
        let keeps_groups = std::fs::read("/proc/self/setgroups").is_ok_and(|answer| answer.starts_with(b"deny"));
        Self { switches, keeps_groups, powers }
    }

    /// Whether the callers' credentials are taken on.
    pub fn switches(self) -> bool {
        self.switches
    }

    /// Takes on the caller's ids, groups and capabilities, or the server's for its own work.
    pub fn assume(self, caller: &Caller) -> Result<()> {
        if !self.switches {
            return Ok(());
        }
        caller.identify()?;
        CURRENT.with_borrow_mut(|current| match caller {
            Caller { server: true, .. } => {
                current.set_ids(0, 0)?;
                current.set_capabilities(self.powers.servers)
            }
            Caller { uid: 0, gid, .. } => {
                let own = self.powers.of_root(caller);
                if !own.contains(OF_PERMISSIONS & self.powers.servers) && !self.keeps_groups {
                    current.set_groups(caller.groups())?;
                }
                current.set_ids(0, *gid)?;
                // What data need may stay from an earlier operation.
                let kept = current.capabilities() & self.powers.for_data(caller);
                current.set_capabilities(own | kept)
            }
            Caller { uid, gid, .. } => {
                if !self.keeps_groups {
                    current.set_groups(caller.groups())?;
                }
                current.set_ids(*uid, *gid)?;
                let kept = current.capabilities() & (self.powers.users | OF_PERMISSIONS);
                current.set_capabilities(kept)
            }
        })
    }

    /// Takes on the caller's ids, groups and capabilities for an operation that takes room on the file system: the superuser
    /// may pass the limits of others.
    pub fn assume_for_data(self, caller: &Caller) -> Result<()> {
        self.assume(caller)?;
        if !self.switches || caller.server || caller.uid != 0 {
            return Ok(());
        }
        CURRENT.with_borrow_mut(|current| current.need_capabilities(self.powers.for_data(caller)))
    }

    /// Takes on the caller's credentials and umask, for an operation that creates something.
    pub fn assume_for_creation(self, caller: &Caller) -> Result<()> {
        CURRENT.with_borrow_mut(|current| current.set_umask(caller.umask))?;
        self.assume_for_data(caller)
    }

    /// Takes the server's user id back, and with it the capabilities to open by handle and to override permissions.
    pub fn become_server(self) -> Result<()> {
        if !self.switches {
            return Ok(());
        }
        CURRENT.with_borrow_mut(|current| {
            let gid = current.ids().1;
            current.set_ids(0, gid)?;
            current.need_capabilities(OF_PERMISSIONS & self.powers.servers)
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
            let _ = current.set_capabilities(capabilities::permitted());
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
        if (now.0 == 0) != (uid == 0) {
            // Those of permissions went, and will all come back, or they just have.
            self.capabilities = self.capabilities.map(|now| now | OF_PERMISSIONS & capabilities::permitted());
        }
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

    /// The capabilities now, were the user id 0.
    fn capabilities(&mut self) -> CapabilitySet {
        let ids = self.ids();
        *self.capabilities.get_or_insert_with(|| {
            let effective = capabilities::effective();
            if ids.0 == 0 { effective } else { effective | (OF_PERMISSIONS & capabilities::permitted()) }
        })
    }

    fn set_capabilities(&mut self, wanted: CapabilitySet) -> Result<()> {
        if self.capabilities() == wanted {
            return Ok(());
        }
        self.capabilities = None;
        // While another user's id is taken on, those of permissions stay away until it is given back.
        let away = if self.ids().0 == 0 { CapabilitySet::empty() } else { OF_PERMISSIONS };
        capabilities::set_effective(wanted & !away)?;
        self.capabilities = Some(wanted);
        Ok(())
    }

    /// Has at least these.
    fn need_capabilities(&mut self, wanted: CapabilitySet) -> Result<()> {
        let now = self.capabilities();
        if now.contains(wanted) { Ok(()) } else { self.set_capabilities(now | wanted) }
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
