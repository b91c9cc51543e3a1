//! Open files and directories of a branch other than the first, whose inode numbers are distinguished from those of the
//! others.

use std::any::Any;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use vnode::{
    AllocateMode, Attributes, Caller, DirectoryEntry, Errno, Lock, LockOwner, OpenDirectory, OpenDirectoryRef,
    OpenFile, OpenFileRef, Result, SeekTarget,
};

use super::inode;

/// An open file in a branch.
pub(crate) struct FanOutFile {
    branch: usize,
    file: OpenFileRef,
}

impl FanOutFile {
    /// Wraps an open file of a branch; a file of the first branch is returned as it is.
    pub(crate) fn wrap(branch: usize, file: OpenFileRef) -> OpenFileRef {
        if branch == 0 { file } else { Arc::new(FanOutFile { branch, file }) }
    }
}

impl OpenFile for FanOutFile {
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.file.read_at(caller, offset, buffer)
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8], kill_privileges: bool) -> Result<usize> {
        self.file.write_at(caller, offset, data, kill_privileges)
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        let attributes = self.file.getattr(caller)?;
        Ok(Attributes { ino: inode(self.branch, attributes.ino), ..attributes })
    }

    fn truncate(&self, caller: &Caller, size: u64, kill_privileges: bool) -> Result<()> {
        self.file.truncate(caller, size, kill_privileges)
    }

    fn flush(&self, caller: &Caller, owner: LockOwner) -> Result<()> {
        self.file.flush(caller, owner)
    }

    fn closing_tells(&self) -> bool {
        self.file.closing_tells()
    }

    fn times_tell_changes(&self) -> bool {
        self.file.times_tell_changes()
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.file.fsync(caller, data_only)
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.file.allocate(caller, mode, offset, length)
    }

    fn seek(&self, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        self.file.seek(caller, offset, target)
    }

    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        match to.as_any().downcast_ref::<FanOutFile>() {
            Some(to) if to.branch == self.branch => self.file.copy_range(caller, offset, &to.file, to_offset, length),
            _ => Err(Errno::EXDEV),
        }
    }

    fn lock(&self, caller: &Caller, owner: LockOwner, lock: &Lock) -> Result<()> {
        self.file.lock(caller, owner, lock)
    }

    fn test_lock(&self, caller: &Caller, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.file.test_lock(caller, owner, lock)
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        self.file.ioctl(caller, command, input, output)
    }

    fn poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        self.file.poll(caller, events)
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        self.file.backing()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An open directory in a branch.
pub(crate) struct FanOutDirectory {
    branch: usize,
    directory: OpenDirectoryRef,
}

impl FanOutDirectory {
    /// Wraps an open directory of a branch; a directory of the first branch is returned as it is.
    pub(crate) fn wrap(branch: usize, directory: OpenDirectoryRef) -> OpenDirectoryRef {
        if branch == 0 { directory } else { Arc::new(FanOutDirectory { branch, directory }) }
    }
}

impl OpenDirectory for FanOutDirectory {
    fn read(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.directory
            .read(caller, cookie, &mut |entry| sink(DirectoryEntry { ino: inode(self.branch, entry.ino), ..entry }))
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.directory.fsync(caller, data_only)
    }
}
