//! An open metadata-only copy: attributes and locks are its own, and reads go to the original.

use std::any::Any;
use std::sync::Arc;

use vnode::{
    AllocateMode, Attributes, Caller, Errno, Lock, LockOwner, OpenFile, OpenFileRef, OpenFlags, Result, SeekTarget,
    VnodeRef, read_fully,
};

use crate::union::branch::lease::open_without_wait;

/// An open metadata-only copy. Opening it for writing in its own branch would have filled in the data.
pub(crate) struct MetadataOnlyFile {
    own: OpenFileRef,
    data: OpenFileRef,
    /// Size of the copy; the original may have become longer.
    size: u64,
    /// Flags of the open; if they include writing, it was opened in another branch.
    flags: OpenFlags,
}

impl MetadataOnlyFile {
    /// Opens the copy, with its data in another file.
    pub(crate) fn open(own: OpenFileRef, data: &VnodeRef, flags: OpenFlags) -> Result<OpenFileRef> {
        let server = Caller::server();
        let (data, size) = (open_without_wait(data, &server, OpenFlags::READ)?, own.getattr(&server)?.size);
        Ok(Arc::new(Self { own, data, size, flags }))
    }

    /// The open copy itself, if the file is one of a metadata-only copy.
    pub(crate) fn own(file: &OpenFileRef) -> Option<&OpenFileRef> {
        file.as_any().downcast_ref::<Self>().map(|opened| &opened.own)
    }

    /// The copy, if it was not opened for writing: it then reports the proper error for a change.
    fn for_refused_change(&self) -> Result<&OpenFileRef> {
        if self.flags.writes() { Err(Errno::EIO) } else { Ok(&self.own) }
    }
}

impl OpenFile for MetadataOnlyFile {
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if !self.flags.reads() {
            return self.own.read_at(caller, offset, buffer);
        }
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        if left == 0 {
            return Ok(0);
        }
        match read_fully(&*self.data, &Caller::server(), offset, &mut buffer[..left])? {
            // The original has been truncated: its former data are lost, and must not be returned as zeros.
            read if read < left && self.data.getattr(&Caller::server())?.size < self.size => Err(Errno::EIO),
            read => Ok(read),
        }
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        self.for_refused_change()?.write_at(caller, offset, data)
    }

    fn truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        self.for_refused_change()?.truncate(caller, size)
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.for_refused_change()?.allocate(caller, mode, offset, length)
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        self.own.getattr(caller)
    }

    fn flush(&self, caller: &Caller, owner: &LockOwner) -> Result<()> {
        self.own.flush(caller, owner)
    }

    fn closing_tells(&self) -> bool {
        self.own.closing_tells()
    }

    /// The copy's times do not show changes of the original.
    fn times_tell_changes(&self) -> bool {
        false
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        // The data may have been written a moment ago, and then been frozen by a snapshot.
        match self.data.fsync(&Caller::server(), data_only) {
            // In a read-only branch there is nothing to synchronize.
            Ok(()) | Err(Errno::EROFS | Errno::EINVAL) => self.own.fsync(caller, data_only),
            error => error,
        }
    }

    fn seek(&self, _caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        if offset >= self.size {
            return Err(Errno::ENXIO);
        }
        match self.data.seek(&Caller::server(), offset, target)? {
            found if found < self.size => Ok(found),
            _ if target == SeekTarget::Hole => Ok(self.size),
            _ => Err(Errno::ENXIO),
        }
    }

    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        if !self.flags.reads() {
            return self.own.copy_range(caller, offset, to, to_offset, length);
        }
        let length = length.min(self.size.saturating_sub(offset));
        if length == 0 {
            return Ok(0);
        }
        // The copying caller pays for it, whoever opened the target.
        self.data.copy_range(caller, offset, to, to_offset, length)
    }

    fn lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        self.own.lock(caller, owner, lock)
    }

    fn test_lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.own.test_lock(caller, owner, lock)
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let file = if crate::ioctl::asks_for_data(command) { &self.data } else { &self.own };
        file.ioctl(caller, command, input, output)
    }

    fn poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        self.own.poll(caller, events)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
