//! Ordering of writes: what has to be on disk before something else may be.
//!
//! On one file system, changes of names are assumed to reach the disk in the order in which they are made, as with a journal.
//! Between file systems only synchronization guarantees an order, so the replacement of an object in another file system is
//! synchronized before that is removed. And fdatasync(2) of a file omits what is not part of its data: its directory entry.

use vnode::VnodeRef;

use super::branches::BranchMember;

/// Returns whether changes in a directory of one branch and in a directory of another may reach the disk in another order. For
/// branches on one disk they cannot.
pub(crate) fn are_unordered(
    (one, here): (&BranchMember, &VnodeRef),
    (other, there): (&BranchMember, &VnodeRef),
) -> bool {
    let is_one_storage = || here.storage().is_some_and(|storage| there.storage() == Some(storage));
    one.is_unordered_with(other) && !is_one_storage()
}

impl BranchMember {
    /// Returns whether changes in the other branch and here may reach the disk in another order.
    pub(crate) fn is_unordered_with(&self, other: &BranchMember) -> bool {
        self.base.numbers.tag != other.base.numbers.tag
    }
}
