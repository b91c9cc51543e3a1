//! The claim of a directory: a lock of the directory itself (flock(2)), for which nothing is written.

use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, OFlags, flock};
use vnode::{Claim, Errno, Result};

use super::errno;
use super::tree::Tree;

/// The lock, given back also where a child of the process has a copy of the descriptor.
struct Lock(OwnedFd);

impl Drop for Lock {
    fn drop(&mut self) {
        // What is closed is unlocked too, unless there is a copy.
        let _ = flock(&self.0, FlockOperation::NonBlockingUnlock);
    }
}

/// Locks the root directory. Where it may not be read, or its file system has no such locks (NFS has them of files only), nobody can
/// tell.
///
/// # Errors
/// `EBUSY` if somebody else has locked it; those of opening it.
pub fn of(tree: &Tree) -> Result<Claim> {
    let mut thread = tree.credentials.thread();
    let opened = thread.act_as_server()?.reopen(tree.root(), OFlags::RDONLY | OFlags::DIRECTORY);
    let directory = match opened.map_err(errno) {
        Err(Errno::EACCES | Errno::EPERM) => return Ok(Claim::unknown()),
        opened => opened?,
    };
    match flock(&directory, FlockOperation::NonBlockingLockExclusive).map_err(errno) {
        Ok(()) => Ok(Claim::held_by(Lock(directory))),
        Err(Errno::EAGAIN) => Err(Errno::EBUSY),
        Err(_) => Ok(Claim::unknown()),
    }
}
