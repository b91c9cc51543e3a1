//! An instance: an object of the union in one branch.

use std::sync::Arc;

use vnode::{InodeNumber, VnodeRef};

use crate::union::branch::branches::BranchMember;
use crate::union::cache::names::CachedNames;

/// An object in one branch.
#[derive(Clone)]
pub(crate) struct Instance {
    pub(crate) member: Arc<BranchMember>,
    pub(crate) vnode: VnodeRef,
    /// Its inode number in the branch.
    pub(crate) ino: InodeNumber,
    /// Of a directory, the cached names in it.
    pub(crate) names: CachedNames,
}

impl Instance {
    /// An instance: the object in a branch, with that inode number.
    pub(crate) fn new(member: &Arc<BranchMember>, vnode: VnodeRef, ino: InodeNumber) -> Self {
        let names = CachedNames::for_kind(vnode.kind());
        Self { member: Arc::clone(member), vnode, ino, names }
    }

    /// Returns whether both are the same object of the same branch.
    pub(crate) fn is_same(&self, other: &Instance) -> bool {
        self.is_object(&other.member, &other.vnode)
    }

    /// Returns whether it is that object of that branch.
    pub(crate) fn is_object(&self, member: &Arc<BranchMember>, vnode: &VnodeRef) -> bool {
        Arc::ptr_eq(&self.member, member) && self.vnode.handle() == vnode.handle()
    }
}

/// A directory's instances from the given branch down; `None` if the directory is not in that branch, or no longer is: the
/// instances that a search was given may have changed since.
pub(crate) fn instances_from<'a>(instances: &'a [Instance], member: &BranchMember) -> Option<&'a [Instance]> {
    let at = instances.iter().position(|instance| std::ptr::eq(&raw const *instance.member, member))?;
    Some(&instances[at..])
}
