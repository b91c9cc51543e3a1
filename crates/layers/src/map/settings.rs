//! What the layer was told to show, to hide and to refuse.

use vnode::layer::Operation;

use super::ids::Ids;
use super::permissions::Permissions;
use super::policies::Policies;
use crate::globs::Globs;

/// What the options say.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) users: Ids,
    pub(super) groups: Ids,
    /// Users who see themselves as the owner of everything.
    pub(super) mirror: Option<Users>,
    pub(super) permissions: Option<Permissions>,
    pub(super) squash: Option<Squash>,
    pub(super) created: Created,
    pub(super) policies: Policies,
    pub(super) hidden: Option<Globs>,
    /// Operations that are refused, as bits by index.
    pub(super) denied: u64,
}

/// A set of users and members of groups.
#[derive(Debug, Default)]
pub(super) struct Users {
    pub(super) users: Vec<u32>,
    pub(super) groups: Vec<u32>,
}

/// Callers who are taken for another one: the superuser, or all.
#[derive(Debug)]
pub(super) struct Squash {
    pub(super) all: bool,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// What is created gets these, as ids below.
#[derive(Debug)]
pub(super) struct Created {
    pub(super) owner: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) permissions: Option<Permissions>,
}

/// Operations that delete, as bits by index.
pub(super) fn deleting() -> u64 {
    ["unlink", "rmdir"].iter().fold(0, |set, name| {
        set | Operation::NAMES.iter().position(|known| known == name).map_or(0, |index| 1 << index)
    })
}
