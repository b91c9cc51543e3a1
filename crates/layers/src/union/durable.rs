//! What has to be on a disk before something else may be: the order in which several calls reach it.
//!
//! On one file system names are taken to reach the disk in the order in which they were changed, as in a journal. Between
//! file systems there is no order but what is synchronized, so what takes the place of something elsewhere is synchronized
//! before that is removed. And fdatasync(2) of a file leaves out what is no data of it: that the file is where it is.

use std::sync::atomic::Ordering;

use vnode::{Caller, Errno, Result, VnodeRef};

use super::branches::Member;
use super::node::{Node, Whereabouts};

/// Has the names in a directory of a branch reach the disk. A file system that cannot be asked for that is taken to have it
/// done.
pub(super) fn sync_directory(directory: &VnodeRef) -> Result<()> {
    let server = Caller::server();
    match directory.open_directory(&server)?.fsync(&server, false) {
        Err(Errno::EROFS | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(()),
        synchronized => synchronized,
    }
}

/// Whether what is done in a directory of one branch and in a directory of another may reach the disk in another order. Of
/// branches on one disk it does not.
pub(super) fn are_apart((one, here): (&Member, &VnodeRef), (other, there): (&Member, &VnodeRef)) -> bool {
    let is_one_storage = || here.storage().is_some_and(|storage| there.storage() == Some(storage));
    one.is_apart_from(other) && !is_one_storage()
}

impl Member {
    /// Whether what is done in the other and here may reach the disk in another order.
    pub(super) fn is_apart_from(&self, other: &Member) -> bool {
        self.base.known.tag != other.base.known.tag
    }
}

impl Node {
    /// It has come to a branch, or its data have come to it there, which may not be on the disk yet.
    pub(super) fn has_arrived(&self) {
        self.is_arriving.store(true, Ordering::Release);
    }

    /// Whether it may have come to its branch since that was last synchronized.
    pub(super) fn is_arriving(&self) -> bool {
        self.is_arriving.load(Ordering::Acquire)
    }

    /// Has it reach the disk that this object has come to a branch, with the directories above that came there for it.
    ///
    /// # Errors
    /// Those of fsync(2): then it is still to be done.
    pub(super) fn sync_arrival(&self, member: &Member) -> Result<()> {
        let mut node = self.reference();
        while node.is_arriving.swap(false, Ordering::AcqRel) {
            let synchronized = node.sync_directory_above(member);
            if synchronized.is_err() || node.instances().len() > 2 {
                // A directory may have come to several branches.
                node.has_arrived();
            }
            synchronized?;
            let Whereabouts::At(above) = node.whereabouts() else { break };
            node = above.directory;
        }
        Ok(())
    }

    fn sync_directory_above(self: &std::sync::Arc<Self>, member: &Member) -> Result<()> {
        if self.find_whereabouts().is_err() {
            // By which of its names it came is not known any more.
            return member.base.file_system.sync();
        }
        let Whereabouts::At(above) = self.whereabouts() else { return Ok(()) };
        above.directory.instance_in(member).map_or(Ok(()), |place| sync_directory(&place))
    }
}
