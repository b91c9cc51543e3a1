//! The user namespace of this process, see user_namespaces(7).

use crate::id_map::IdKind;
use crate::process::Process;
use crate::read::read;

/// Returns whether every ID of this kind maps to itself, as outside of all user namespaces; `None` if that cannot be
/// read because /proc is missing.
pub fn has_machine_ids(kind: IdKind) -> Option<bool> {
    Process::Own.id_map(kind).ok().flatten().map(|map| map.is_identity())
}

/// Returns whether this process is the machine's superuser: the root of a user namespace may mount, and has none of
/// root's other privileges. If /proc is missing, the user ID is trusted.
pub fn is_machine_root() -> bool {
    rustix::process::geteuid().is_root() && has_machine_ids(IdKind::User).unwrap_or(true)
}

/// Returns whether this process is in a user namespace in which setgroups(2) is denied.
pub fn denies_setgroups() -> bool {
    read("/proc/self/setgroups").is_ok_and(|text| text.starts_with(b"deny"))
}
