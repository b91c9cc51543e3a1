//! The capabilities that a thread has while it acts for somebody: the one list, with a reason for each.
//!
//! | acting for | it has |
//! |---|---|
//! | the server | what the process was started with, but [`OF_RESOURCES`] |
//! | the server, for data at the expense of a user | [`KEPT`], and CAP_FSETID, without which the kernel takes set-id bits away |
//! | the server, for names and objects at the expense of a user | what it has for itself, with the user's ids |
//! | a superuser | of those what the caller has itself, and [`KEPT`] |
//! | either, where room is taken that a superuser pays for | also [`OF_RESOURCES`], if that one has it |
//! | a user | [`KEPT`] |
//! | a user, over an object of its own | [`KEPT`], and CAP_DAC_OVERRIDE if the kernel has admitted it (`vnode_impl.rs`) |

use std::sync::{LazyLock, OnceLock};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use vnode::{Caller, Result, mount_table};

use super::errno;

/// Those that the kernel takes away and gives back with the file system user id (capabilities(7)).
pub const OF_PERMISSIONS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::LINUX_IMMUTABLE);

/// To use what is reserved for the superuser and to pass the limits of quotas: only for what a superuser takes of a file
/// system. What the server takes is somebody's.
const OF_RESOURCES: CapabilitySet = CapabilitySet::SYS_RESOURCE;

/// What a thread keeps whoever it acts for. None of them allows anything on files that is not refused elsewhere.
const KEPT: [(CapabilitySet, &str); 3] = [
    (CapabilitySet::SETUID, "to take on the next caller's user id"),
    (CapabilitySet::SETGID, "to take on the next caller's groups"),
    (CapabilitySet::SYS_NICE, "to go back from SCHED_IDLE"),
];

/// To read the groups of callers in a /proc that hides other users' processes (`hidepid`). Elsewhere it would only show
/// users what /proc, served as a part of the tree, tells of others.
const TO_SEE_HIDDEN: CapabilitySet = CapabilitySet::SYS_PTRACE;

/// What threads of this process may have for whom.
#[derive(Clone, Copy, Debug)]
pub struct Powers {
    /// For the server.
    pub servers: CapabilitySet,
    /// For all users.
    users: CapabilitySet,
    /// The process is not in a user namespace in which nobody can change groups (user_namespaces(7)): there all have its own.
    pub sets_groups: bool,
    all: CapabilitySet,
}

impl Powers {
    /// Of what this process has, whoever the thread acts for now; `None` if it cannot take on other users' ids.
    pub fn of_this_process() -> Option<Self> {
        static POWERS: OnceLock<Option<Powers>> = OnceLock::new();
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        *POWERS.get_or_init(|| {
            let all = permitted();
            let kept = KEPT.iter().fold(CapabilitySet::empty(), |kept, (one, _)| kept | *one);
            let kept = if hides_processes() { kept | TO_SEE_HIDDEN } else { kept };
            let sets_groups = !std::fs::read("/proc/self/setgroups").is_ok_and(|answer| answer.starts_with(b"deny"));
            let powers = Self { servers: all - OF_RESOURCES, users: all & kept, sets_groups, all };
            all.contains(CapabilitySet::SETUID | CapabilitySet::SETGID).then_some(powers)
        })
    }

    /// For a caller whose user id is 0.
    pub fn of_root(self, caller: &Caller) -> CapabilitySet {
        self.servers & own(caller) | self.users
    }

    /// What it takes besides to pass the limits.
    pub fn of_resources(self) -> CapabilitySet {
        self.all & OF_RESOURCES
    }

    /// For a user.
    pub fn of_user(self, caller: &Caller) -> CapabilitySet {
        let over_its_own = if caller.is_overriding() { CapabilitySet::DAC_OVERRIDE } else { CapabilitySet::empty() };
        self.users | (self.servers & over_its_own)
    }

    /// For data that the server writes at the expense of a user.
    pub fn at_expense(self) -> CapabilitySet {
        self.users | (self.servers & CapabilitySet::FSETID)
    }
}

/// The caller's own capabilities.
fn own(caller: &Caller) -> CapabilitySet {
    CapabilitySet::from_bits_retain(caller.capabilities())
}

/// The thread's effective capabilities; none where they cannot be known.
pub fn effective() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// The permitted capabilities of the process, which its threads keep.
pub fn permitted() -> CapabilitySet {
    static PERMITTED: LazyLock<CapabilitySet> =
        LazyLock::new(|| capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted));
    *PERMITTED
}

/// Has the thread have these, of those that it is permitted.
pub fn set_effective(wanted: CapabilitySet) -> Result<()> {
    let mut sets = capabilities(None).map_err(errno)?;
    sets.effective = wanted & sets.permitted;
    set_capabilities(None, sets).map_err(errno)
}

/// Whether /proc is mounted so that it hides processes of other users (proc(5)).
fn hides_processes() -> bool {
    let table = std::fs::read(mount_table::OWN).unwrap_or_default();
    mount_table::mounts(&table).filter(|mount| *mount.mount_point == *b"/proc").any(|mount| {
        let mut options = mount.file_system_options.split(|&byte| byte == b',');
        options.any(|option| option.starts_with(b"hidepid=") && !option.ends_with(b"0") && !option.ends_with(b"f"))
    })
}
