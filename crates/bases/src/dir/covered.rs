//! The directory that the stack's own mount covers, if it is in the tree.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vnode::{InodeNumber, Name, Result};

use super::absolute_paths::absolute_path;
use super::calls::PATH_ONLY;
use super::credentials::AssumedCredentials;
use super::errno;
use super::mounts::Mount;
use super::status::Status;

/// The object under the mount, with the directory and name by which it would be found.
pub(crate) struct CoveredDirectory {
    object: OwnedFd,
    parent: Status,
    name: Vec<u8>,
}

impl CoveredDirectory {
    /// Opens the directory that is about to be covered.
    pub(crate) fn new(acting: &AssumedCredentials<'_>, directory: BorrowedFd<'_>) -> Result<Self> {
        let object = acting.open_at(directory, ".", PATH_ONLY).map_err(errno)?;
        let parent = acting.status_at(directory, "..")?;
        let path = absolute_path(directory)?;
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
        Ok(Self { object, parent, name })
    }

    /// Returns the covered directory, if the name refers to it in the directory with that [`Mount::identity_ino`].
    pub(crate) fn at(&self, mount: &Mount, ino: InodeNumber, name: Name<'_>) -> Option<BorrowedFd<'_>> {
        let is_it = || mount.identity_ino(&self.parent) == ino && self.parent.device() == mount.device;
        (self.name == name.as_bytes() && is_it()).then(|| self.object.as_fd())
    }
}
