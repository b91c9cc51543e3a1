//! The users that perform the calls.

use conformance::Identity;

/// A user, and how the acting process assumes its identity.
pub(crate) struct User {
    pub name: &'static str,
    pub identity: fn() -> Identity,
    /// It is the root of a user namespace of its own.
    pub has_namespace: bool,
    /// It may open objects by their handles.
    pub may_use_handles: bool,
}

/// Owner of the objects.
pub(crate) const OWNER: u32 = 1000;
/// Another member of the objects' group, which has the owner's number.
pub(crate) const MEMBER: u32 = 1001;
/// User that no list and no mode names.
pub(crate) const STRANGER: u32 = 1002;
/// User that access control lists name.
pub(crate) const LISTED: u32 = 1003;

const fn user(name: &'static str, identity: fn() -> Identity) -> User {
    User { name, identity, has_namespace: false, may_use_handles: false }
}

pub(crate) const USERS: &[User] = &[
    user("owner", || Identity::user(OWNER)),
    user("member of the group", || Identity::user(MEMBER).and_groups(&[OWNER])),
    user("other", || Identity::user(STRANGER)),
    user("user of a list", || Identity::user(LISTED)),
    User { may_use_handles: true, ..user("root", || Identity::ROOT) },
    user("root without capabilities", || Identity::ROOT.without_capabilities()),
    User { has_namespace: true, ..user("root of a namespace, other", || Identity::user(STRANGER)) },
    User { has_namespace: true, ..user("root of a namespace, owner", || Identity::user(OWNER)) },
];
