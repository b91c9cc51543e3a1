//! Durability: what has to be on stable storage before a request is answered, under the mount options `sync` and `dirsync`.
//!
//! With `sync` the kernel sends an fsync after each write that goes through its cache. The syncs that it does not request are
//! done here: after writes that bypass the cache, allocations, copies and changes of size, and with either option after each
//! change of a directory. Data written through a shared mapping is synced by msync(2), as on other file systems.

use super::mounting::flags::MountFlags;
use super::mounting::options::Decisions;
use std::sync::atomic::{AtomicBool, Ordering};
use vnode::{Caller, Errno, FileSystem, OpenFile, OpenFlags, Result, Vnode};

/// The current values of a mount's two options.
pub(crate) struct Durability {
    data: AtomicBool,
    directories: AtomicBool,
    server: Caller,
}

impl Durability {
    pub(crate) fn new(decisions: &Decisions) -> Durability {
        Durability {
            data: AtomicBool::new(decisions.synchronous),
            directories: AtomicBool::new(decisions.synchronous_directories),
            server: Caller::server(),
        }
    }

    /// Sets the options from new mount flags. They apply to every request that is answered from now on.
    pub(crate) fn set(&self, flags: &MountFlags) {
        self.data.store(flags.synchronous, Ordering::Release);
        self.directories.store(flags.synchronous || flags.synchronous_directories, Ordering::Release);
    }

    /// Returns whether written data has to be on stable storage.
    pub(crate) fn covers_data(&self) -> bool {
        self.data.load(Ordering::Acquire)
    }

    /// Syncs an open file whose data has changed without an fsync request from the kernel.
    pub(crate) fn file_changed(&self, caller: &Caller, file: &dyn OpenFile) -> Result<()> {
        if self.covers_data() { file.fsync(caller, false) } else { Ok(()) }
    }

    /// Syncs a file whose size has changed. If the server may not open the file, the whole file system is synced.
    pub(crate) fn size_changed(&self, file: &dyn Vnode, file_system: &dyn FileSystem) -> Result<()> {
        if !self.covers_data() {
            return Ok(());
        }
        match file.open(&self.server, OpenFlags::READ) {
            Ok(open) => open.fsync(&self.server, false),
            Err(_) => file_system.sync(),
        }
    }

    /// Syncs a directory whose names have changed. If the server may not open it, or its file system has no fsync for
    /// directories, the whole file system is synced.
    pub(crate) fn directory_changed(&self, directory: &dyn Vnode, file_system: &dyn FileSystem) -> Result<()> {
        if !self.directories.load(Ordering::Acquire) {
            return Ok(());
        }
        let synchronized = directory.open_directory(&self.server).and_then(|open| open.fsync(&self.server, false));
        match synchronized {
            Err(Errno::EACCES | Errno::EPERM | Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOENT | Errno::ESTALE) => {
                file_system.sync()
            }
            synchronized => synchronized,
        }
    }
}
