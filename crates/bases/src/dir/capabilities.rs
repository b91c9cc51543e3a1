//! The capabilities of a thread while it acts on behalf of a caller: the only such list, with a reason for each.
//!
//! | acting for | it has |
//! |---|---|
//! | the server | what the process was started with, except [`RESOURCE_CAPABILITIES`] |
//! | the server, for data at the expense of a user | [`ALWAYS_KEPT`], and CAP_FSETID, without which the kernel clears set-id bits |
//! | the server, for names and objects at the expense of a user | what it has for itself, with the user's ids |
//! | a superuser | the server's capabilities that the caller has too, and [`ALWAYS_KEPT`] |
//! | either, where space is taken that is charged to a superuser | also [`RESOURCE_CAPABILITIES`], if that superuser has it |
//! | a user | [`ALWAYS_KEPT`] |
//! | a user, over an object of its own | [`ALWAYS_KEPT`], and CAP_DAC_OVERRIDE if the kernel has permitted it (`operations.rs`) |

use std::sync::{LazyLock, OnceLock};

use procfs::mount_table;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use vnode::{Caller, Result};

use super::errno;

/// Capabilities that the kernel drops and restores with the file system user id (capabilities(7)).
pub(crate) const PERMISSION_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::LINUX_IMMUTABLE);

/// Capabilities with which groups permit nothing more.
pub(crate) const CAPABILITIES_BEYOND_GROUPS: CapabilitySet =
    CapabilitySet::CHOWN.union(CapabilitySet::DAC_OVERRIDE).union(CapabilitySet::FOWNER).union(CapabilitySet::FSETID);

/// Allows using space reserved for the superuser and exceeding quotas: only for space that a superuser takes on a file
/// system. Space that the server takes is charged to some user.
const RESOURCE_CAPABILITIES: CapabilitySet = CapabilitySet::SYS_RESOURCE;

/// Capabilities that a thread keeps whomever it acts for. None of them allows any file access that is not refused elsewhere.
const ALWAYS_KEPT: [(CapabilitySet, &str); 3] = [
    (CapabilitySet::SETUID, "to take on the next caller's user id"),
    (CapabilitySet::SETGID, "to take on the next caller's groups"),
    (CapabilitySet::SYS_NICE, "to go back from SCHED_IDLE"),
];

/// Allows reading the groups of callers in a /proc that hides other users' processes (`hidepid`). Elsewhere it would only
/// show users what /proc, served as a part of the tree, reveals about others.
const HIDDEN_PROCESS_CAPABILITY: CapabilitySet = CapabilitySet::SYS_PTRACE;

/// The capabilities that threads of this process may have, by whom they act for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllowedCapabilities {
    /// Capabilities for the server.
    pub server_set: CapabilitySet,
    /// Capabilities for every user.
    user_set: CapabilitySet,
    /// Whether the process is outside user namespaces in which setgroups(2) is denied (user_namespaces(7)): inside one, every
    /// caller has the groups of the process.
    pub sets_groups: bool,
    all: CapabilitySet,
}

impl AllowedCapabilities {
    /// Returns the capabilities available to this process, whomever the thread acts for now; `None` if it cannot assume
    /// other users' ids.
    pub(crate) fn of_this_process() -> Option<Self> {
        static ALLOWED: OnceLock<Option<AllowedCapabilities>> = OnceLock::new();
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        *ALLOWED.get_or_init(|| {
            let all = permitted();
            let kept = ALWAYS_KEPT.iter().fold(CapabilitySet::empty(), |kept, (one, _)| kept | *one);
            let kept = if hides_processes() { kept | HIDDEN_PROCESS_CAPABILITY } else { kept };
            let sets_groups = !procfs::denies_setgroups();
            let allowed = Self { server_set: all - RESOURCE_CAPABILITIES, user_set: all & kept, sets_groups, all };
            all.contains(CapabilitySet::SETUID | CapabilitySet::SETGID).then_some(allowed)
        })
    }

    /// Returns the capabilities for a caller whose user id is 0.
    pub(crate) fn for_root(self, caller: &Caller) -> CapabilitySet {
        self.server_set & own_capabilities(caller) | self.user_set
    }

    /// Returns the additional capabilities needed to exceed the limits.
    pub(crate) fn past_limits(self) -> CapabilitySet {
        self.all & RESOURCE_CAPABILITIES
    }

    /// Returns the capabilities for a user.
    pub(crate) fn for_user(self, caller: &Caller) -> CapabilitySet {
        let over_its_own = if caller.is_overriding() { CapabilitySet::DAC_OVERRIDE } else { CapabilitySet::empty() };
        self.user_set | (self.server_set & over_its_own)
    }

    /// Returns the capabilities for data that the server writes at the expense of a user.
    pub(crate) fn for_charged_data(self) -> CapabilitySet {
        self.user_set | (self.server_set & CapabilitySet::FSETID)
    }
}

/// Returns the caller's own capabilities.
fn own_capabilities(caller: &Caller) -> CapabilitySet {
    CapabilitySet::from_bits_retain(caller.capabilities())
}

/// Returns the thread's effective capabilities; none if they cannot be determined.
pub(crate) fn effective() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// The capabilities of the process; its threads keep those that are permitted and those that are inherited.
static OF_PROCESS: LazyLock<rustix::io::Result<CapabilitySets>> = LazyLock::new(|| capabilities(None));

/// Returns the permitted capabilities of the process; none if they cannot be determined.
pub(crate) fn permitted() -> CapabilitySet {
    OF_PROCESS.map_or(CapabilitySet::empty(), |sets| sets.permitted)
}

/// Sets the thread's effective capabilities to those of `wanted` that it is permitted.
pub(crate) fn set_effective(wanted: CapabilitySet) -> Result<()> {
    let sets = OF_PROCESS.map_err(errno)?;
    set_capabilities(None, CapabilitySets { effective: wanted & sets.permitted, ..sets }).map_err(errno)
}

/// Returns whether /proc is mounted so that it hides processes of other users (proc(5)).
fn hides_processes() -> bool {
    let table = mount_table::read().unwrap_or_default();
    mount_table::mounts(&table).filter(|mount| *mount.mount_point == *b"/proc").any(|mount| {
        let mut options = mount.file_system_options.split(|&byte| byte == b',');
        options.any(|option| option.starts_with(b"hidepid=") && !option.ends_with(b"0") && !option.ends_with(b"f"))
    })
}
