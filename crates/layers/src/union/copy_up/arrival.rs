//! Arrival of a copy in its branch: what has to be on disk before the copy counts as synchronized.

use std::sync::atomic::Ordering;

use vnode::Result;

use crate::union::branch::branches::BranchMember;
use crate::union::branch::objects::sync_directory;
use crate::union::state::{Node, NodeLocation};

impl Node {
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
