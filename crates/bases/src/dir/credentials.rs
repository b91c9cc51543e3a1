//! Acts with the caller's credentials: the file system ids, supplementary groups, capabilities and umask of the calling
//! thread.
//!
//! Credentials stay as they were set until the next operation on the same thread needs others, since consecutive operations
//! are mostly from one user. The exception is the umask, which is restored at the end of the operation for other code that
//! creates files on the same thread. Only file system ids change, never the effective ones; with them the kernel drops the
//! capabilities that concern permissions (capabilities(7), effect of user ID changes). Of the remaining ones, those that a
//! user must not have are dropped here. Whatever the retained ones would allow a caller beyond Linux's rules for its user is
//! refused where it matters (extended attributes).
//!
//! Each operation has one [`ThreadCredentials`] and acts through borrows of it, so no operation acts for two callers at
//! once, nor for the caller of an earlier step. System calls that depend on credentials are methods of
//! [`AssumedCredentials`].

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, OnceLock};

use rustix::thread::CapabilitySet;
use vnode::{Caller, Errno, Result};

use super::capabilities::{self, AllowedCapabilities, CAPABILITIES_BEYOND_GROUPS, PERMISSION_CAPABILITIES};
use super::system::SystemResult;
use super::{errno, system};

/// How a base acts on behalf of its callers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credentials {
    /// `None` if it acts as the user that it runs as, whoever calls.
    allowed: Option<AllowedCapabilities>,
}

/// The credentials of the thread that an operation runs on. Each operation has one and passes it down.
pub(crate) struct ThreadCredentials {
    credentials: Credentials,
    /// Whether it has assumed a caller's umask.
    has_caller_umask: bool,
    /// Keeps the value on its thread.
    _own: PhantomData<*const ()>,
}

/// Proof that the credentials of the thread do not change while this lives.
pub(crate) struct AssumedCredentials<'t>(PhantomData<&'t mut ThreadCredentials>);

/// The current credentials of this thread, as far as they have been set or queried.
struct CurrentCredentials {
    ids: Option<(u32, u32)>,
    groups: Option<Arc<[u32]>>,
    umask: Option<Umask>,
    /// The effective capabilities.
    capabilities: Option<CapabilitySet>,
}

/// The file mode creation mask of a thread that has its own.
#[derive(Clone, Copy)]
struct Umask {
    /// The mask outside operations.
    own: u32,
    now: u32,
}

thread_local! {
    static CURRENT: RefCell<CurrentCredentials> =
        const { RefCell::new(CurrentCredentials { ids: None, groups: None, umask: None, capabilities: None }) };
}

impl Credentials {
    /// Probes whether the process can act with callers' credentials: as root with CAP_SETUID and CAP_SETGID. Otherwise it
    /// acts as the user that it runs as.
    pub(crate) fn probe() -> Self {
        let allowed = AllowedCapabilities::of_this_process();
        if allowed.is_some() {
            let _ = own_groups();
            vnode::restore_credentials_by(reset_new_thread);
        }
        Self { allowed }
    }

    /// Returns whether the callers' credentials are assumed.
    pub(crate) fn assumes_callers(self) -> bool {
        self.allowed.is_some()
    }

    /// Returns the credentials of this thread, for an operation that begins.
    pub(crate) fn thread(self) -> ThreadCredentials {
        ThreadCredentials { credentials: self, has_caller_umask: false, _own: PhantomData }
    }
}

impl ThreadCredentials {
    /// Assumes the caller's ids, groups and capabilities, or the server's for its own work.
    pub(crate) fn act_for(&mut self, caller: &Caller) -> Result<AssumedCredentials<'_>> {
        self.change(|current, allowed| current.act_for(allowed, caller))
    }

    /// Assumes the credentials for writing data of an open file for the caller: the space it takes on the file system is
    /// charged to the caller, or to the user at whose expense the caller acts. The superuser may exceed the limits of
    /// others.
    pub(crate) fn act_for_data(&mut self, caller: &Caller) -> Result<AssumedCredentials<'_>> {
        self.change(|current, allowed| match caller.payer() {
            Some(payer) => current.act_as(allowed, payer, allowed.for_charged_data()),
            None => current.act_past_limits(allowed, caller),
        })
    }

    /// Assumes the caller's ids, groups and capabilities, for an operation that may exceed the limits of others if the
    /// caller may.
    pub(crate) fn act_past_limits(&mut self, caller: &Caller) -> Result<AssumedCredentials<'_>> {
        self.change(|current, allowed| current.act_past_limits(allowed, caller))
    }

    /// Runs an operation that may take space on a file system other than for data: it creates an object or a name, or changes
    /// metadata stored with an object. The space is charged to the caller, or to the user at whose expense the caller acts; in
    /// the latter case the caller is the server, which acts with all its rights. A new object belongs to the user that is
    /// charged.
    pub(crate) fn charge_space<T>(
        &mut self,
        caller: &Caller,
        take: impl Fn(&AssumedCredentials<'_>) -> SystemResult<T>,
    ) -> Result<T> {
        let payer = caller.payer().filter(|_| caller.server);
        let acting = self.change(|current, allowed| match payer {
            Some(payer) => current.act_as(allowed, payer, allowed.server_set),
            None => current.act_past_limits(allowed, caller),
        });
        match acting.and_then(|acting| take(&acting).map_err(errno)) {
            // A file system that knows only users, as on another machine, has nothing reserved for this machine's superuser.
            Err(Errno::EACCES | Errno::EPERM | Errno::EOVERFLOW) if payer.is_some() => {
                take(&self.act_for(caller)?).map_err(errno)
            }
            taken => taken,
        }
    }

    /// Like [`ThreadCredentials::charge_space`], with the caller's umask: for a new object.
    pub(crate) fn create<T>(
        &mut self,
        caller: &Caller,
        create: impl Fn(&AssumedCredentials<'_>) -> SystemResult<T>,
    ) -> Result<T> {
        self.has_caller_umask = true;
        CURRENT.with_borrow_mut(|current| current.set_umask(caller.umask))?;
        self.charge_space(caller, create)
    }

    /// Restores the server's user id, and with it the capabilities to open by handle and to override permissions.
    pub(crate) fn act_as_server(&mut self) -> Result<AssumedCredentials<'_>> {
        self.change(|current, allowed| {
            let gid = current.ids().1;
            current.set_ids(0, gid)?;
            current.ensure_capabilities(PERMISSION_CAPABILITIES & allowed.server_set)
        })
    }

    /// Returns whether the callers' credentials are assumed.
    pub(crate) fn assumes_callers(&self) -> bool {
        self.credentials.assumes_callers()
    }

    fn change(
        &mut self,
        change: impl FnOnce(&mut CurrentCredentials, AllowedCapabilities) -> Result<()>,
    ) -> Result<AssumedCredentials<'_>> {
        if let Some(allowed) = self.credentials.allowed {
            CURRENT.with_borrow_mut(|current| change(current, allowed))?;
        }
        Ok(AssumedCredentials(PhantomData))
    }
}

impl Drop for ThreadCredentials {
    fn drop(&mut self) {
        if self.has_caller_umask {
            CURRENT.with_borrow_mut(CurrentCredentials::restore_umask);
        }
    }
}

/// Restores the process's own file system ids on the calling thread, for code that shares threads with this base and opens
/// files of its own.
pub fn restore_thread_credentials() {
    CURRENT.with_borrow_mut(|current| {
        if current.ids.is_some() && rustix::process::geteuid().is_root() {
            current.act_as_process();
        }
    });
}

/// Gives a new thread the process's own credentials and umask: it inherits those that its creator acted with.
fn reset_new_thread() {
    CURRENT.with_borrow_mut(|current| {
        current.act_as_process();
        if let (Some(allowed), Some(groups)) = (AllowedCapabilities::of_this_process(), own_groups()) {
            let _ = current.set_groups(allowed, groups);
        }
        if let Some(umask) = OWN_UMASK.get() {
            // In this order: the second statement changes only a mask that the thread has of its own.
            let _ = current.set_umask(*umask);
            current.umask.iter_mut().for_each(|own| own.own = *umask);
        }
    });
}

/// The umask of the process, set once a thread has assumed another one.
static OWN_UMASK: OnceLock<u32> = OnceLock::new();

/// No supplementary groups.
fn no_groups() -> &'static Arc<[u32]> {
    static NONE: LazyLock<Arc<[u32]>> = LazyLock::new(|| Arc::new([]));
    &NONE
}

/// The supplementary groups of the process, if they can be determined: first queried while no thread has others.
fn own_groups() -> Option<&'static Arc<[u32]>> {
    static GROUPS: LazyLock<Option<Arc<[u32]>>> = LazyLock::new(|| {
        let groups = rustix::process::getgroups().ok()?;
        Some(groups.into_iter().map(rustix::process::Gid::as_raw).collect())
    });
    GROUPS.as_ref()
}

impl CurrentCredentials {
    /// Switching back to root is always allowed for a process whose effective user is root.
    fn act_as_process(&mut self) {
        let _ = self.set_ids(0, rustix::process::getegid().as_raw());
        let _ = self.set_capabilities(capabilities::permitted());
    }

    fn act_for(&mut self, allowed: AllowedCapabilities, caller: &Caller) -> Result<()> {
        self.act_with(allowed, caller, CapabilitySet::empty())
    }

    /// Like `act_for`, with the capabilities to exceed limits if the caller may.
    fn act_past_limits(&mut self, allowed: AllowedCapabilities, caller: &Caller) -> Result<()> {
        caller.identify()?;
        let more = if caller.may_pass_limits() { allowed.past_limits() } else { CapabilitySet::empty() };
        self.act_with(allowed, caller, more)
    }

    /// Acts as the caller, with `more` capabilities.
    fn act_with(&mut self, allowed: AllowedCapabilities, caller: &Caller, more: CapabilitySet) -> Result<()> {
        caller.identify()?;
        match caller {
            Caller { server: true, .. } => {
                self.set_ids(0, 0)?;
                self.set_capabilities(allowed.server_set | more)
            }
            Caller { uid: 0, gid, .. } => {
                let own = allowed.for_root(caller);
                // Looking the groups up costs more than most operations. Those of the last caller must not stay: a server of another
                // machine, which knows nothing of capabilities, would act by them.
                let needs_none = own.contains(CAPABILITIES_BEYOND_GROUPS)
                    || own.contains(PERMISSION_CAPABILITIES & allowed.server_set);
                self.set_groups(allowed, if needs_none { no_groups() } else { caller.groups() })?;
                self.set_ids(0, *gid)?;
                // Capabilities for exceeding limits may remain from an earlier operation.
                let may_stay = if caller.may_pass_limits() { allowed.past_limits() } else { CapabilitySet::empty() };
                let kept = self.capabilities() & may_stay;
                self.set_capabilities(own | more | kept)
            }
            Caller { uid, gid, .. } => {
                self.set_groups(allowed, caller.groups())?;
                self.set_ids(*uid, *gid)?;
                self.set_capabilities(allowed.for_user(caller))
            }
        }
    }

    /// Acts as a user with these capabilities: for what the server does at the user's expense.
    fn act_as(
        &mut self,
        allowed: AllowedCapabilities,
        (uid, gid): (u32, u32),
        capabilities: CapabilitySet,
    ) -> Result<()> {
        self.set_groups(allowed, no_groups())?;
        self.set_ids(uid, gid)?;
        self.set_capabilities(capabilities)
    }

    /// Returns the current ids. A new thread inherits those of the thread that created it, whatever they were then.
    fn ids(&mut self) -> (u32, u32) {
        *self.ids.get_or_insert_with(system::file_system_ids)
    }

    fn set_ids(&mut self, uid: u32, gid: u32) -> Result<()> {
        let now = self.ids();
        if now == (uid, gid) {
            return Ok(());
        }
        // Invalidated until both are known to be set: ids outside the user namespace are refused without an error.
        self.ids = None;
        if (now.1 != gid && !system::set_file_system_gid(gid)) || (now.0 != uid && !system::set_file_system_uid(uid)) {
            return Err(Errno::EPERM);
        }
        self.ids = Some((uid, gid));
        // As the kernel does.
        match (now.0, uid) {
            (0, 1..) => self.capabilities = self.capabilities.map(|now| now - PERMISSION_CAPABILITIES),
            (1.., 0) => {
                let back = PERMISSION_CAPABILITIES & capabilities::permitted();
                self.capabilities = self.capabilities.map(|now| now | back);
            }
            _ => {}
        }
        Ok(())
    }

    fn set_groups(&mut self, allowed: AllowedCapabilities, groups: &Arc<[u32]>) -> Result<()> {
        if !allowed.sets_groups || self.groups.as_ref().is_some_and(|now| now == groups) {
            return Ok(());
        }
        self.groups = None;
        system::set_thread_groups(groups).map_err(errno)?;
        self.groups = Some(Arc::clone(groups));
        Ok(())
    }

    /// Returns the current capabilities.
    fn capabilities(&mut self) -> CapabilitySet {
        *self.capabilities.get_or_insert_with(capabilities::effective)
    }

    fn set_capabilities(&mut self, wanted: CapabilitySet) -> Result<()> {
        if self.capabilities() == wanted {
            return Ok(());
        }
        self.capabilities = None;
        capabilities::set_effective(wanted)?;
        self.capabilities = Some(wanted);
        Ok(())
    }

    /// Ensures that the thread has at least these capabilities.
    fn ensure_capabilities(&mut self, wanted: CapabilitySet) -> Result<()> {
        let now = self.capabilities();
        if now.contains(wanted) { Ok(()) } else { self.set_capabilities(now | wanted) }
    }

    fn set_umask(&mut self, umask: u32) -> Result<()> {
        let now = umask & 0o777;
        match &mut self.umask {
            Some(umask) if umask.now == now => {}
            Some(umask) => {
                system::set_umask(now);
                umask.now = now;
            }
            None => {
                system::unshare_umask().map_err(errno)?;
                let own = system::set_umask(now);
                OWN_UMASK.get_or_init(|| own);
                self.umask = Some(Umask { own, now });
            }
        }
        Ok(())
    }

    fn restore_umask(&mut self) {
        if let Some(umask) = &mut self.umask
            && umask.now != umask.own
        {
            system::set_umask(umask.own);
            umask.now = umask.own;
        }
    }
}
