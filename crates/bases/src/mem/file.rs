//! Open files: reading, writing, allocation, seeking, copying, locks.

use std::any::Any;
use std::sync::Arc;

use vnode::profile::{self, Part};
use vnode::{
    AllocateMode, Attributes, Caller, Errno, FileKind, Lock, LockFamily, LockKind, LockOwner, OpenFile, OpenFileRef,
    OpenFlags, Result, SeekTarget, zeros,
};

use crate::unix::permissions::{check_open, has_noatime};

use super::KIND;
use super::data::{Data, SIZE_MAX};
use super::inode::Inode;
use super::memory;

/// Number of bytes that one step of a copy moves: the locks are held for that long.
const COPY_CHUNK_BYTES: u64 = 256 * 1024;

/// Maximum memory of a lock in bytes, without that of its owner.
const LOCK_BYTES: u64 = 256;

/// An open regular file.
pub(crate) struct MemoryFile {
    inode: Arc<Inode>,
    flags: OpenFlags,
    /// Distinguishes this open file's locks from others'.
    number: u64,
}

impl Inode {
    /// Opens a regular file.
    pub(crate) fn open_file(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        match self.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR),
            FileKind::Symlink => return Err(Errno::ELOOP),
            _ => return Err(Errno::ENXIO),
        }
        if flags.truncates() {
            let mut state = self.write();
            check_open(&state.metadata.protection, caller, flags)?;
            let (data, metadata) = state.file_mut()?;
            data.resize(&self.volume.pages, 0)?;
            metadata.data_changed(caller);
            drop(state);
            self.volume.return_memory();
        } else {
            check_open(&self.read().metadata.protection, caller, flags)?;
        }
        Ok(profile::open_file(Arc::new(MemoryFile::new(self.to_arc(), flags))))
    }
}

impl MemoryFile {
    /// Creates the open file of an inode after the permission check.
    pub(crate) fn new(inode: Arc<Inode>, flags: OpenFlags) -> Self {
        let number = inode.volume.next_open_number();
        Self { inode, flags, number }
    }

    fn require_writable(&self) -> Result<()> {
        if self.flags.writes() { Ok(()) } else { Err(Errno::EBADF) }
    }

    fn update_access_time(&self) {
        if !has_noatime(self.flags) {
            self.inode.update_access_time();
        }
    }

    /// Changes the data: on success, clears privileges and updates the times.
    fn change_data<T>(&self, caller: &Caller, change: impl FnOnce(&mut Data) -> Result<T>) -> Result<T> {
        let mut state = self.inode.write();
        let (data, metadata) = state.file_mut()?;
        let result = change(data)?;
        metadata.data_changed(caller);
        drop(state);
        self.inode.volume.return_memory();
        Ok(result)
    }

    /// Copies the bytes of one step, a hole as a hole, and returns their number; 0 at the end.
    fn copy_chunk(&self, caller: &Caller, offset: u64, to: &Self, to_offset: u64, length: u64) -> Result<u64> {
        let space = &self.inode.volume.pages;
        let mut buffer;
        {
            let state = self.inode.read();
            let data = state.data()?;
            let left = data.size().saturating_sub(offset).min(length);
            if left == 0 {
                return Ok(0);
            }
            let next_data = data.seek(offset, SeekTarget::Data).unwrap_or(u64::MAX);
            if next_data > offset {
                let hole = left.min(next_data - offset);
                drop(state);
                to.change_data(caller, |data| {
                    data.punch(space, to_offset, to_offset + hole);
                    if to_offset + hole > data.size() { data.resize(space, to_offset + hole) } else { Ok(()) }
                })?;
                return Ok(hole);
            }
            let until_hole = data.seek(offset, SeekTarget::Hole)? - offset;
            buffer = zeros(left.min(until_hole).min(COPY_CHUNK_BYTES) as usize)?;
            data.read(offset, &mut buffer);
        }
        to.change_data(caller, |data| data.write(space, to_offset, &buffer)).map(|written| written as u64)
    }
}

impl Part for MemoryFile {
    const PART: &'static str = KIND;
}

impl OpenFile for MemoryFile {
    fn read_at(&self, _caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if !self.flags.reads() {
            return Err(Errno::EBADF);
        }
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = self.inode.read().data()?.read(offset, buffer);
        self.update_access_time();
        Ok(read)
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        self.require_writable()?;
        if data.is_empty() {
            return Ok(0);
        }
        self.change_data(caller, |file| {
            let offset = if self.flags.appends() { file.size() } else { offset };
            file.write(&self.inode.volume.pages, offset, data)
        })
    }

    fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
        Ok(self.inode.attributes())
    }

    fn truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        if !self.flags.writes() {
            return Err(Errno::EINVAL);
        }
        self.change_data(caller, |file| file.resize(&self.inode.volume.pages, size))
    }

    fn flush(&self, _caller: &Caller, owner: &LockOwner) -> Result<()> {
        self.inode.release_locks(|table| table.release_ranges(owner));
        Ok(())
    }

    fn closing_tells(&self) -> bool {
        false
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.require_writable()?;
        if length == 0 {
            return Err(Errno::EINVAL);
        }
        let operation = Allocation::of(mode)?;
        let end = offset.checked_add(length).filter(|&end| end <= SIZE_MAX).ok_or(Errno::EFBIG)?;
        let space = &self.inode.volume.pages;
        self.change_data(caller, |file| match operation {
            Allocation::Reserve { grow } => file.reserve(space, offset, end, grow),
            Allocation::Zero { grow } => file.zero(space, offset, end, grow),
            Allocation::Punch => {
                file.punch(space, offset, end);
                Ok(())
            }
            Allocation::Collapse => file.collapse(space, offset, end),
            Allocation::Insert => file.insert(offset, length),
        })
    }

    fn seek(&self, _caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        self.inode.read().data()?.seek(offset, target)
    }

    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        let to = to.as_any().downcast_ref::<Self>().ok_or(Errno::EXDEV)?;
        if !Arc::ptr_eq(&self.inode.volume, &to.inode.volume) {
            return Err(Errno::EXDEV);
        }
        if !self.flags.reads() || to.flags.appends() {
            return Err(Errno::EBADF);
        }
        to.require_writable()?;
        let fits = |start: u64| start.checked_add(length).is_some();
        if !fits(offset) || !fits(to_offset) {
            return Err(Errno::EOVERFLOW);
        }
        let length = length.min(self.inode.read().data()?.size().saturating_sub(offset));
        if to_offset >= SIZE_MAX && length > 0 {
            return Err(Errno::EFBIG);
        }
        if Arc::ptr_eq(&self.inode, &to.inode) && offset < to_offset + length && to_offset < offset + length {
            return Err(Errno::EINVAL);
        }
        let length = length.min(SIZE_MAX - to_offset.min(SIZE_MAX));
        let mut copied = 0;
        while copied < length {
            match self.copy_chunk(caller, offset + copied, to, to_offset + copied, length - copied) {
                Ok(0) => break,
                Ok(step) => copied += step,
                Err(errno) if copied == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        if copied > 0 {
            self.update_access_time();
        }
        Ok(copied)
    }

    fn lock(&self, _caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        let admitted = match (lock.family, lock.kind) {
            (LockFamily::Posix, LockKind::Shared) => self.flags.reads(),
            (LockFamily::Posix, LockKind::Exclusive) => self.flags.writes(),
            _ => true,
        };
        if !admitted {
            return Err(Errno::EBADF);
        }
        if lock.kind != LockKind::Unlock {
            memory::check_available(LOCK_BYTES + owner.shared_bytes() as u64).map_err(|_| Errno::ENOLCK)?;
        }
        self.inode.with_locks(|table| table.set(owner, self.number, lock))
    }

    fn test_lock(&self, _caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        Ok(self.inode.with_locks(|table| table.conflict(owner, lock)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.inode.release_locks(|table| table.release_holder(self.number));
    }
}

/// The request of a fallocate(2) call.
enum Allocation {
    Reserve { grow: bool },
    Zero { grow: bool },
    Punch,
    Collapse,
    Insert,
}

impl Allocation {
    fn of(mode: AllocateMode) -> Result<Self> {
        let keeps_size = mode.contains(AllocateMode::KEEP_SIZE);
        let rest = AllocateMode::from_bits(mode.bits() & !AllocateMode::KEEP_SIZE.bits());
        match (rest, keeps_size) {
            (AllocateMode::ALLOCATE, _) => Ok(Self::Reserve { grow: !keeps_size }),
            (AllocateMode::ZERO_RANGE, _) => Ok(Self::Zero { grow: !keeps_size }),
            (AllocateMode::PUNCH_HOLE, true) => Ok(Self::Punch),
            (AllocateMode::COLLAPSE_RANGE, false) => Ok(Self::Collapse),
            (AllocateMode::INSERT_RANGE, false) => Ok(Self::Insert),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}
