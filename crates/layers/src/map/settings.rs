//! Settings of `map`: what to show, to hide and to refuse.

use vnode::layer::Operation;

use super::ids::Ids;
use super::permissions::Permissions;
use super::policies::Policies;
use crate::globs::Globs;

/// Settings read from the options.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) users: Ids,
    pub(super) groups: Ids,
    /// Users that see themselves as the owner of everything.
    pub(super) mirror: Option<Users>,
    pub(super) permissions: Option<Permissions>,
    pub(super) squash: Option<Squash>,
    pub(super) created: Created,
    pub(super) policies: Policies,
    pub(super) hidden: Option<Globs>,
    /// Bit set of refused operations, by index.
    pub(super) denied: u64,
}

/// A set of users and group members.
#[derive(Debug, Default)]
pub(super) struct Users {
    pub(super) users: Vec<u32>,
    pub(super) groups: Vec<u32>,
}

/// The squashing of callers, the superuser or all, to another user.
#[derive(Debug)]
pub(super) struct Squash {
    pub(super) all: bool,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Attributes that new objects get; the IDs are lower IDs.
#[derive(Debug)]
pub(super) struct Created {
    pub(super) owner: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) permissions: Option<Permissions>,
}

/// Returns the bit set of operations that delete, by index.
pub(super) fn deleting() -> u64 {
    ["unlink", "rmdir"].iter().fold(0, |set, name| {
        set | Operation::NAMES.iter().position(|known| known == name).map_or(0, |index| 1 << index)
    })
}
