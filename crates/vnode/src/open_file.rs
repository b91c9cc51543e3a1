//! An open file: data, holes, locks. Dropping the last reference releases it.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{AllocateMode, Attributes, Caller, Errno, Lock, LockOwner, Result, SeekTarget};

/// A shared open file.
pub type OpenFileRef = Arc<dyn OpenFile>;

/// An open regular file. Offsets and lengths are bytes of the file as its reader sees it.
///
/// The permitted operations depend on how the file was opened (`EBADF` otherwise), not on the caller, as for a file
/// descriptor. Concurrent calls are allowed; a write is atomic with respect to reads and writes as far as the lower
/// file system's is. Whatever changes data or the size clears set-ID bits and file capabilities as Linux does for the caller's
/// credentials, and whatever these are if the caller [kills privileges](Caller::killing_privileges).
pub trait OpenFile: Send + Sync + 'static {
    /// Reads up to `buffer.len()` bytes at `offset`, fewer only at the end of the file, 0 past it.
    ///
    /// # Errors
    /// As pread(2).
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes `data` at `offset`, or at the end if the file was opened for appending, regardless of `offset`: appending
    /// writers never overwrite each other. Writes fewer bytes than requested only if storage runs out partway.
    /// Default: `EBADF`.
    ///
    /// # Errors
    /// As pwrite(2).
    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let _ = (caller, offset, data);
        Err(Errno::EBADF)
    }

    /// Returns the attributes, as fstat(2): also of an unlinked file, with `nlink` 0.
    ///
    /// # Errors
    /// Those of the storage.
    fn getattr(&self, caller: &Caller) -> Result<Attributes>;

    /// Sets the size, as ftruncate(2); how the file was opened decides whether this is permitted. Default: `EINVAL`.
    ///
    /// # Errors
    /// As ftruncate(2).
    fn truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        let _ = (caller, size);
        Err(Errno::EINVAL)
    }

    /// Handles the close of a descriptor (others may remain open): releases the owner's POSIX locks on the file and
    /// reports an error of earlier writes that has not been reported yet. Default: does nothing.
    ///
    /// # Errors
    /// As close(2).
    fn flush(&self, caller: &Caller, owner: &LockOwner) -> Result<()> {
        let _ = (caller, owner);
        Ok(())
    }

    /// Returns whether [`OpenFile::flush`] may have something to report or to do besides releasing locks, whoever wrote
    /// to the file and by whatever path. Default: yes.
    fn closing_tells(&self) -> bool {
        true
    }

    /// Returns whether unchanged size, mtime and ctime imply unchanged data, where the
    /// [promises](crate::Promises::times_tell_changes) leave this to individual files. Default: yes.
    fn times_tell_changes(&self) -> bool {
        true
    }

    /// Flushes what was written to stable storage; with `data_only`, without the attributes that reading does not need.
    /// Default: does nothing.
    ///
    /// # Errors
    /// As fsync(2).
    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        let _ = (caller, data_only);
        Ok(())
    }

    /// Reserves, punches or zeroes a range, as fallocate(2). Default: `EOPNOTSUPP`.
    ///
    /// # Errors
    /// As fallocate(2).
    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        let _ = (caller, mode, offset, length);
        Err(Errno::EOPNOTSUPP)
    }

    /// Returns the offset of the next data or hole at or after `offset`, as lseek(2). Default: everything up to the
    /// size is data.
    ///
    /// # Errors
    /// `ENXIO` at or past the end.
    fn seek(&self, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        let size = self.getattr(caller)?.size;
        match target {
            _ if offset >= size => Err(Errno::ENXIO),
            SeekTarget::Data => Ok(offset),
            SeekTarget::Hole => Ok(size),
        }
    }

    /// Copies within the file system without passing the data up, as copy_file_range(2); may copy fewer bytes. Default:
    /// `EXDEV`, on which a front end or program falls back to reading and writing.
    ///
    /// # Errors
    /// `EXDEV` if such a copy is not possible; as copy_file_range(2).
    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        let _ = (caller, offset, to, to_offset, length);
        Err(Errno::EXDEV)
    }

    /// Acquires or releases a lock for `owner` without waiting: callers that want to wait retry. Default: `EOPNOTSUPP`,
    /// on which a front end manages locks by itself.
    ///
    /// # Errors
    /// `EAGAIN` if another owner's lock conflicts; `EBADF` as fcntl(2).
    fn lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        let _ = (caller, owner, lock);
        Err(Errno::EOPNOTSUPP)
    }

    /// Returns a lock that conflicts with `lock` for `owner`, as `F_GETLK`; `None` if `lock` could be acquired.
    /// Default: `EOPNOTSUPP`.
    ///
    /// # Errors
    /// As fcntl(2).
    fn test_lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        let _ = (caller, owner, lock);
        Err(Errno::EOPNOTSUPP)
    }

    /// As [`crate::Vnode::ioctl`], for an open file. Default: `ENOTTY`.
    ///
    /// # Errors
    /// `ENOTTY` for an unknown command.
    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let _ = (caller, command, input, output);
        Err(Errno::ENOTTY)
    }

    /// Returns which of the `POLL*` events of poll(2) are ready now. Called where [`crate::Needs::every_poll`] is declared;
    /// elsewhere all count as ready. Default: those of a regular file, always ready.
    ///
    /// # Errors
    /// Those of the storage.
    fn poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        let _ = caller;
        Ok(events & (libc::POLLIN | libc::POLLOUT | libc::POLLRDNORM | libc::POLLWRNORM) as u32)
    }

    /// Returns the file of the base that holds exactly this data, for the kernel to read and write directly. Called
    /// only where [`crate::Properties::allows_bypass`] holds. Until its next operation the calling thread has the
    /// credentials with which the opener of the file writes: a system call that writes to the descriptor must be made
    /// at once. Default: none.
    fn backing(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether the file of [`OpenFile::backing`] is open elsewhere too. So it is as long as a program has mapped it that
    /// the kernel let read and write it directly: such a program may have closed it. Default: no.
    fn is_open_elsewhere(&self) -> bool {
        false
    }

    /// The file itself, so that the file system that created it recognizes its own files in `copy_range`.
    fn as_any(&self) -> &dyn Any;
}
