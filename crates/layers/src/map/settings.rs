//! Settings of `map`: what to show, to hide and to refuse.

use vnode::layer::Operation;

use super::ids::Ids;
use super::permissions::Permissions;
use super::policies::Policies;
use crate::globs::Globs;

/// Settings read from the options.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) users: Ids,
    pub(crate) groups: Ids,
    /// Users that see themselves as the owner of everything.
    pub(crate) mirror: Option<Users>,
    pub(crate) permissions: Option<Permissions>,
    pub(crate) squash: Option<Squash>,
    pub(crate) created: Created,
    pub(crate) policies: Policies,
    pub(crate) hidden: Option<Globs>,
    /// Bit set of refused operations, by index.
    pub(crate) denied: u64,
}

/// A set of users and group members.
#[derive(Debug, Default)]
pub(crate) struct Users {
    pub(crate) users: Vec<u32>,
    pub(crate) groups: Vec<u32>,
}

/// The squashing of callers, the superuser or all, to another user.
#[derive(Debug)]
pub(crate) struct Squash {
    pub(crate) all: bool,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Attributes that new objects get; the IDs are lower IDs.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) owner: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) permissions: Option<Permissions>,
}

/// Returns the bit set of operations that delete, by index.
pub(crate) fn deleting() -> u64 {
    ["unlink", "rmdir"].iter().fold(0, |set, name| {
        set | Operation::NAMES.iter().position(|known| known == name).map_or(0, |index| 1 << index)
    })
}
