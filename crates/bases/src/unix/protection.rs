//! Protection: the attributes of an object that decide who may do what to it.

use vnode::FileKind;

use super::acl::Acl;

/// Kind, owner, group, mode and access control lists of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protection {
    pub(crate) kind: FileKind,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Permission, set-ID and sticky bits, at most 0o7777.
    pub(crate) mode: u32,
    /// Present only if it expresses more than the mode does.
    pub(crate) access_acl: Option<Box<Acl>>,
    /// What new objects in a directory inherit.
    pub(crate) default_acl: Option<Box<Acl>>,
}
