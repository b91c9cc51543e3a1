//! Open files: reading, writing, allocation, locks.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vnode::profile::{self, Part};
use vnode::{
    AllocateMode, Attributes, Caller, Errno, FileKind, Lock, LockFamily, LockKind, LockOwner, OpenFile, OpenFileRef,
    OpenFlags, Result, Timestamp,
};

use crate::unix::permissions::{check_open, has_noatime};
use crate::unix::set_id;

use super::KIND;
use super::attributes::SIZE_MAX;
use super::block_buffer::BlockBuffer;
use super::changing::Change;
use super::inode::{Inode, State};

/// Mode bits that a change of data may clear.
const SET_ID_BITS: u32 = libc::S_ISUID | libc::S_ISGID;

/// Where data is written.
#[derive(Clone, Copy)]
enum WriteStart {
    /// At this offset.
    At(u64),
    /// At the end of the file.
    End,
    /// At this offset, if the file ends there.
    EndAt(u64),
}

/// An open regular file.
pub(crate) struct FatFile {
    inode: Arc<Inode>,
    flags: OpenFlags,
    /// Distinguishes this open file's locks from others'.
    number: u64,
    /// This open file is one of [`State::reservers`].
    is_reserver: AtomicBool,
    /// Number of failed synchronizations that this open file has reported, or that precede it.
    reported: AtomicU64,
    /// What is read in blocks.
    block: BlockBuffer,
}

/// Returns a file that was just created, and is open whatever its mode is.
pub(crate) fn open_new_file(inode: &Arc<Inode>, flags: OpenFlags) -> OpenFileRef {
    profile::open_file(Arc::new(FatFile::new(inode.clone(), flags)))
}

impl Inode {
    /// Opens a regular file. Called without any lock held, and not within a change.
    pub(crate) fn open_file(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        match self.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR),
            FileKind::Symlink => return Err(Errno::ELOOP),
            _ => return Err(Errno::ENXIO),
        }
        self.check_usable()?;
        if flags.writes() || flags.truncates() {
            check_open(&self.read().metadata.protection, caller, flags)?;
            self.volume.check_writable()?;
        }
        if flags.truncates() {
            self.volume.change(|change| {
                let mut state = self.write_for_data(change)?;
                check_open(&state.metadata.protection, caller, flags)?;
                self.resize(&mut state, 0)?;
                self.data_changed(&mut state, caller);
                Ok(())
            })?;
        } else {
            check_open(&self.read().metadata.protection, caller, flags)?;
        }
        Ok(profile::open_file(Arc::new(FatFile::new(self.to_arc(), flags))))
    }

    /// Locks the state for a change of data, which may clear set-ID bits.
    fn write_for_data(&self, _change: &Change<'_>) -> Result<std::sync::RwLockWriteGuard<'_, State>> {
        let has_privileges = |state: &State| {
            let metadata = &state.metadata;
            metadata.protection.mode & SET_ID_BITS != 0 || metadata.extended_attributes.names().next().is_some()
        };
        let needs_record = has_privileges(&self.read());
        let state = if needs_record { self.write_with_record(0)? } else { self.write() };
        self.data_version.fetch_add(1, Ordering::Relaxed);
        Ok(state)
    }

    /// Clears set-id bits as the caller's privileges require and capabilities, and updates the times, after a change of data.
    fn data_changed(&self, state: &mut State, caller: &Caller) {
        set_id::clear(&mut state.metadata.protection, caller, false);
        state.metadata.extended_attributes.forget_capability();
        state.metadata.forget_hidden_privileges();
        state.metadata.attributes |= crate::fat::format::EntryAttributes::ARCHIVE;
        state.metadata.times.modified();
        self.metadata_changed(state);
    }

    /// Writes data. Returns the offset and the number of bytes, fewer if there is no more space.
    ///
    /// # Errors
    /// `EAGAIN` if the file no longer ends at [`WriteStart::EndAt`]; `EFBIG`, `ENOSPC`, `EIO`.
    fn write_data(&self, change: &Change<'_>, caller: &Caller, start: WriteStart, data: &[u8]) -> Result<(u64, usize)> {
        let mut state = self.write_for_data(change)?;
        let offset = match start {
            WriteStart::At(offset) => offset,
            WriteStart::End => state.size,
            WriteStart::EndAt(end) if end == state.size => end,
            WriteStart::EndAt(_) => return Err(Errno::EAGAIN),
        };
        if offset >= SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        let end = offset.saturating_add(data.len() as u64).min(SIZE_MAX);
        let end = match end > state.size {
            true => self.allocate(&state, end)?,
            false => end,
        };
        if end <= offset {
            return Err(Errno::ENOSPC);
        }
        let length = (end - offset) as usize;
        let access = self.volume.access();
        let written = access
            .zero(&self.chain, state.size, offset.max(state.size))
            .and_then(|()| access.write(&self.chain, offset, &data[..length]));
        if let Err(errno) = written {
            self.mark_truncated();
            return Err(errno);
        }
        state.size = state.size.max(end);
        self.data_changed(&mut state, caller);
        Ok((offset, length))
    }

    /// Updates the access time by the rules of `relatime`: only if it is not later than the last change, or a day old.
    pub(crate) fn update_access_time(&self) {
        let is_directory = self.kind == FileKind::Directory;
        let is_updated = self.volume.updates_access_times[usize::from(is_directory)].load(Ordering::Relaxed);
        let now = Timestamp::now();
        let (old, new) = {
            let state = self.read();
            if !is_updated || !state.metadata.times.needs_access_time_update(now) {
                return;
            }
            let mut metadata = state.metadata.clone();
            metadata.times.atime = now;
            self.volume.round_times(&mut metadata);
            (state.metadata.times.atime, metadata.times.atime)
        };
        if self.is_root() && !self.volume.has_sidecars {
            // The disk has no place for it.
            self.write().metadata.times.atime = new;
        } else if old != new && self.volume.check_writable().is_ok() {
            // Reading succeeds, whether its time is stored or not.
            let _ = self.volume.change(|_| {
                let mut state = self.write();
                state.metadata.times.atime = new;
                self.metadata_changed(&mut state);
                Ok(())
            });
        }
    }
}

impl FatFile {
    fn new(inode: Arc<Inode>, flags: OpenFlags) -> Self {
        let number = inode.volume.next_open_number();
        let reported = AtomicU64::new(inode.volume.failed_syncs.load(Ordering::Acquire));
        Self { inode, flags, number, is_reserver: AtomicBool::new(false), reported, block: BlockBuffer::default() }
    }

    fn require_writable(&self) -> Result<()> {
        if self.flags.writes() { Ok(()) } else { Err(Errno::EBADF) }
    }

    /// Makes a change stable if the file was opened for that.
    fn complete(&self) -> Result<()> {
        if self.flags.synchronizes() { self.synchronize() } else { Ok(()) }
    }

    fn synchronize(&self) -> Result<()> {
        self.inode.volume.synchronize_and_report(&self.reported)
    }
}

impl Part for FatFile {
    const PART: &'static str = KIND;
}

impl OpenFile for FatFile {
    fn read_at(&self, _caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if !self.flags.reads() {
            return Err(Errno::EBADF);
        }
        if buffer.is_empty() {
            return Ok(0);
        }
        let length = {
            let state = self.inode.read();
            let length = state.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
            self.block.read(&self.inode, state.size, offset, &mut buffer[..length])?;
            length
        };
        if !has_noatime(self.flags) {
            self.inode.update_access_time();
        }
        Ok(length)
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        self.require_writable()?;
        if data.is_empty() {
            return Ok(0);
        }
        let appends = self.flags.appends();
        let start = if appends { WriteStart::End } else { WriteStart::At(offset) };
        let inode = &self.inode;
        inode.grow_in_parts(if appends || offset >= SIZE_MAX { 0 } else { offset })?;
        let (start, mut written) = inode.volume.change(|change| inode.write_data(change, caller, start, data))?;
        if written < data.len() && start + (written as u64) < SIZE_MAX && inode.volume.can_retry(Errno::ENOSPC) {
            inode.volume.synchronize()?;
            let next = start + written as u64;
            let next = if appends { WriteStart::EndAt(next) } else { WriteStart::At(next) };
            // What somebody else appended meanwhile is not between the parts of one write: the first part is reported then.
            let rest = inode.volume.change(|change| inode.write_data(change, caller, next, &data[written..]));
            written += rest.map_or(0, |(_, length)| length);
        }
        inode.volume.storage.start_writing_back();
        self.complete()?;
        Ok(written)
    }

    fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
        Ok(self.inode.attributes())
    }

    fn truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        if !self.flags.writes() {
            return Err(Errno::EINVAL);
        }
        self.inode.grow_in_parts(size)?;
        self.inode.volume.change(|change| {
            let mut state = self.inode.write_for_data(change)?;
            self.inode.resize(&mut state, size)?;
            self.inode.data_changed(&mut state, caller);
            Ok(())
        })?;
        self.complete()
    }

    fn flush(&self, _caller: &Caller, owner: &LockOwner) -> Result<()> {
        self.inode.release_locks(|table| table.release_ranges(owner));
        Ok(())
    }

    fn closing_tells(&self) -> bool {
        false
    }

    fn fsync(&self, _caller: &Caller, _data_only: bool) -> Result<()> {
        self.synchronize()
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.require_writable()?;
        if length == 0 {
            return Err(Errno::EINVAL);
        }
        let keeps_size = mode.contains(AllocateMode::KEEP_SIZE);
        let zeroes = match AllocateMode::from_bits(mode.bits() & !AllocateMode::KEEP_SIZE.bits()) {
            AllocateMode::ALLOCATE => false,
            AllocateMode::ZERO_RANGE => true,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let end = offset.checked_add(length).filter(|&end| end <= SIZE_MAX).ok_or(Errno::EFBIG)?;
        let size_before = self.inode.read().size;
        if !keeps_size {
            self.inode.grow_in_parts(end)?;
        }
        self.inode.volume.change(|change| {
            let mut state = self.inode.write_for_data(change)?;
            if self.inode.allocate(&state, end)? < end {
                return Err(Errno::ENOSPC);
            }
            if end > state.size && keeps_size {
                state.reserved_clusters = state.reserved_clusters.max(self.inode.volume.clusters_of(end));
                if !self.is_reserver.swap(true, Ordering::Relaxed) {
                    state.reservers += 1;
                }
            } else if end > state.size {
                self.inode.resize(&mut state, end)?;
            }
            self.inode.data_changed(&mut state, caller);
            Ok(())
        })?;
        if zeroes {
            self.inode.zero_in_parts(offset, end.min(size_before))?;
        }
        self.complete()
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
        self.inode.with_locks(|table| table.set(owner, self.number, lock))
    }

    fn test_lock(&self, _caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        Ok(self.inode.with_locks(|table| table.conflict(owner, lock)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for FatFile {
    fn drop(&mut self) {
        self.inode.release_locks(|table| table.release_holder(self.number));
        if self.is_reserver.load(Ordering::Relaxed) {
            let mut state = self.inode.write();
            state.reservers = state.reservers.saturating_sub(1);
            if state.reservers == 0 {
                state.reserved_clusters = 0;
                self.inode.mark_truncated();
            }
        }
    }
}
