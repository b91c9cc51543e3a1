//! Check for the machine's root: the root of a user namespace may mount, and has none of root's other
//! privileges.

use procfs::{IdKind, has_machine_ids};

/// Returns whether the process is the superuser, with a user id that is not mapped by a user namespace. If /proc is missing,
/// the user id is trusted.
pub(crate) fn is_machine_root() -> bool {
    rustix::process::geteuid().is_root() && has_machine_ids(IdKind::User).unwrap_or(true)
}
