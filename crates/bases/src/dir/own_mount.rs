//! The mount of a process that serves one: what is in it is no base for its own stack, which would wait for itself.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use procfs::{Process, mount_table};
use vnode::Result;

static SERVES_ONE_MOUNT: AtomicBool = AtomicBool::new(false);

/// Declares that this process serves a single mount: from now on, a directory in a FUSE mount that this process serves cannot be opened
/// as a file system. A process with several mounts may have one on another.
pub fn declare_single_mount() {
    SERVES_ONE_MOUNT.store(true, Ordering::Relaxed);
}

/// Returns whether an object is in the only mount of this process. Nothing is asked of the mount itself.
pub(crate) fn has(object: BorrowedFd<'_>) -> Result<bool> {
    if !SERVES_ONE_MOUNT.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let number = procfs::mount_id(object)?;
    let table = mount_table::read()?;
    let Some(mount) = mount_table::mounts(&table).find(|mount| mount.number == number && mount.is_fuse()) else {
        return Ok(false);
    };
    let connections = Process::Own.fuse_connections()?.unwrap_or_default();
    Ok(connections.contains(&rustix::fs::minor(mount.device)))
}
