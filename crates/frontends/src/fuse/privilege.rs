//! Whether this process is the machine's root: the root of a user namespace may mount, and has no other right of root's.

use vnode::{IdKind, has_machine_ids};

/// Whether it is the superuser, and what it is called is not made up by a user namespace. Where /proc is missing, its user id is
/// believed.
pub(crate) fn is_machine_root() -> bool {
    rustix::process::geteuid().is_root() && has_machine_ids(IdKind::User).unwrap_or(true)
}
