//! Ordering of writes: what has to be on disk before something else may be.
//!
//! On one file system, changes of names are assumed to reach the disk in the order in which they are made, as with a journal.
//! Between file systems only synchronization guarantees an order, so the replacement of an object in another file system is
//! synchronized before that is removed. And fdatasync(2) of a file omits what is not part of its data: its directory entry.

use std::sync::atomic::Ordering;

use vnode::{Result, VnodeRef};

use super::branches::BranchMember;
use super::objects::sync_directory;
use crate::union::node::{Node, NodeLocation};

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

impl Node {
    /// Records that it was copied to a branch, or its data were filled in there, which may not be on disk yet.
    pub(crate) fn record_arrival(&self) {
        self.needs_arrival_sync.store(true, Ordering::Release);
    }

    /// Returns whether it may have been copied to its branch since that was last synchronized.
    pub(crate) fn needs_arrival_sync(&self) -> bool {
        self.needs_arrival_sync.load(Ordering::Acquire)
    }

    /// Synchronizes this object's arrival in a branch, with the ancestors that were created there for it.
    ///
    /// # Errors
    /// Errors of fsync(2): then it is still to be done.
    pub(crate) fn sync_arrival(&self, member: &BranchMember) -> Result<()> {
        let mut node = self.reference();
        while node.needs_arrival_sync.swap(false, Ordering::AcqRel) {
            let synchronized = node.sync_directory_above(member);
            if synchronized.is_err() || node.instances().len() > 2 {
                // A directory may have been created in several branches.
                node.record_arrival();
            }
            synchronized?;
            let NodeLocation::At(above) = node.location() else { break };
            node = above.directory;
        }
        Ok(())
    }

    fn sync_directory_above(self: &std::sync::Arc<Self>, member: &BranchMember) -> Result<()> {
        if self.find_location().is_err() {
            // The name by which it was copied is not known any more.
            return member.base.file_system.sync();
        }
        let NodeLocation::At(above) = self.location() else { return Ok(()) };
        above.directory.instance_in(member).map_or(Ok(()), |directory| sync_directory(&directory))
    }
}
