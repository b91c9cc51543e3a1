//! Durability: what has to be on storage before a request is answered, by the mount options `sync` and `dirsync`.
//!
//! With `sync` the kernel asks for an fsync after each write that goes through its cache. What it does not ask for is done here:
//! after writes past the cache, allocations, copies and changes of size, and with either option after each change of a
//! directory. Data written through a shared mapping are synchronized by msync(2), as on other file systems.

use super::mount_flags::MountFlags;
use super::options::Decisions;
use std::sync::atomic::{AtomicBool, Ordering};
use vnode::{Caller, Errno, FileSystem, OpenFile, OpenFlags, Result, Vnode};

/// The two options of a mount, as they are now.
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

    /// Other flags. Counts for every request that is answered from here on.
    pub(crate) fn set(&self, flags: &MountFlags) {
        self.data.store(flags.synchronous, Ordering::Release);
        self.directories.store(flags.synchronous || flags.synchronous_directories, Ordering::Release);
    }

    /// Whether what is written has to be on storage.
    pub(crate) fn of_data(&self) -> bool {
        self.data.load(Ordering::Acquire)
    }

    /// The data of this open file have changed without the kernel's asking for an fsync.
    pub(crate) fn file_changed(&self, caller: &Caller, file: &dyn OpenFile) -> Result<()> {
        if self.of_data() { file.fsync(caller, false) } else { Ok(()) }
    }

    /// The size of this file has changed. One that the server may not open is synchronized with all others.
    pub(crate) fn size_changed(&self, file: &dyn Vnode, all: &dyn FileSystem) -> Result<()> {
        if !self.of_data() {
            return Ok(());
        }
        match file.open(&self.server, OpenFlags::READ) {
            Ok(open) => open.fsync(&self.server, false),
            Err(_) => all.sync(),
        }
    }

    /// Names in this directory have changed. One that the server may not open, or whose file system has no fsync for
    /// directories, is synchronized with all others.
    pub(crate) fn directory_changed(&self, directory: &dyn Vnode, all: &dyn FileSystem) -> Result<()> {
        if !self.directories.load(Ordering::Acquire) {
            return Ok(());
        }
        let synchronized = directory.open_directory(&self.server).and_then(|open| open.fsync(&self.server, false));
        match synchronized {
            Err(Errno::EACCES | Errno::EPERM | Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOENT | Errno::ESTALE) => {
                all.sync()
            }
            synchronized => synchronized,
        }
    }
}
