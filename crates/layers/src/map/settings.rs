//! Settings of `map`: what to show, to hide and to refuse.

use vnode::Caller;
use vnode::layer::Operation;

use super::ids::IdMapping;
use super::permissions::PermissionChanges;
use super::policies::ChangePolicies;
use crate::globs::Globs;

/// Settings read from the options.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) users: IdMapping,
    pub(crate) groups: IdMapping,
    pub(crate) mirror: Option<Mirror>,
    pub(crate) permissions: Option<PermissionChanges>,
    pub(crate) squash: Option<Squash>,
    pub(crate) created: CreationSettings,
    pub(crate) policies: ChangePolicies,
    /// The modification time is shown as the time of the last change.
    pub(crate) ctime_from_mtime: bool,
    /// Each file is shown with one link.
    pub(crate) hides_links: bool,
    pub(crate) hidden: Option<Globs>,
    /// Bit set of refused operations, by index.
    pub(crate) denied: u64,
}

/// Callers that see themselves as the owner of everything.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(crate) users: UsersAndGroups,
    /// All other callers, the superuser included, have no access.
    pub(crate) denies_others: bool,
}

/// A set of users and group members.
#[derive(Debug, Default)]
pub(crate) struct UsersAndGroups {
    pub(crate) users: Vec<u32>,
    pub(crate) groups: Vec<u32>,
}

impl UsersAndGroups {
    /// Returns whether the caller is one of the users, or a member of one of the groups.
    pub(crate) fn contains(&self, caller: &Caller) -> bool {
        self.users.contains(&caller.uid) || self.groups.iter().any(|group| caller.is_in_group(*group))
    }
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
pub(crate) struct CreationSettings {
    pub(crate) owner: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) permissions: Option<PermissionChanges>,
}

/// Returns the bit set of operations that delete, by index.
pub(crate) fn delete_operations() -> u64 {
    ["unlink", "rmdir"].iter().fold(0, |set, name| {
        set | Operation::NAMES.iter().position(|candidate| candidate == name).map_or(0, |index| 1 << index)
    })
}
