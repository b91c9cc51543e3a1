//! The claim of a directory: a lock on the directory itself (flock(2)), which writes nothing.

use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, OFlags, flock};
use vnode::{Claim, Errno, Result};

use super::errno;
use super::tree::Tree;

/// The lock, released on drop even if a child of the process has a copy of the descriptor.
struct ClaimLock(OwnedFd);

impl Drop for ClaimLock {
    fn drop(&mut self) {
        // Closing also unlocks, unless there is a copy.
        let _ = flock(&self.0, FlockOperation::NonBlockingUnlock);
    }
}

/// Locks the root directory. Other claims cannot be detected where the directory is not readable or its file system does not
/// support such locks (NFS supports them on files only).
///
/// # Errors
/// `EBUSY` if another process has locked it; errors of opening it.
pub(crate) fn of<N>(tree: &Tree<N>) -> Result<Claim> {
    let mut thread = tree.credentials.thread();
    let opened = thread.act_as_server()?.reopen(tree.root(), OFlags::RDONLY | OFlags::DIRECTORY);
    let directory = match opened.map_err(errno) {
        Err(Errno::EACCES | Errno::EPERM) => return Ok(Claim::unknown()),
        opened => opened?,
    };
    match flock(&directory, FlockOperation::NonBlockingLockExclusive).map_err(errno) {
        Ok(()) => Ok(Claim::held_by(ClaimLock(directory))),
        Err(Errno::EAGAIN) => Err(Errno::EBUSY),
        Err(_) => Ok(Claim::unknown()),
    }
}
