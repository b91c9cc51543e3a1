//! The directory that the stack's own mount covers, if it lies in the tree.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vnode::{Name, Result};

use super::credentials::Acting;
use super::errno;
use super::node::Node;
use super::paths::absolute_path;
use super::tree::PATH_ONLY;

/// What lies under the mount, and by which name in which directory it would be found.
pub struct Covered {
    object: OwnedFd,
    parent_device: u64,
    parent_ino: u64,
    name: Vec<u8>,
}

impl Covered {
    /// The directory about to be covered.
    pub fn new(acting: &Acting<'_>, directory: BorrowedFd<'_>) -> Result<Self> {
        let object = acting.open_at(directory, ".", PATH_ONLY).map_err(errno)?;
        let parent = acting.status_at(directory, "..")?;
        let path = absolute_path(directory)?;
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
        Ok(Self { object, parent_device: parent.device(), parent_ino: parent.ino(), name })
    }

    /// The covered directory, if that is what the name in `directory` stands for.
    pub fn at(&self, directory: &Node, name: Name<'_>) -> Option<BorrowedFd<'_>> {
        let is_it = self.name == name.as_bytes()
            && self.parent_ino == directory.ino_below()
            && self.parent_device == directory.mount().device;
        is_it.then(|| self.object.as_fd())
    }
}
