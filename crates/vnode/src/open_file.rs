//! An open file: data, holes, locks. Dropping the last reference releases it.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{AllocateMode, Attributes, Caller, Errno, Lock, LockOwner, OpenFlags, Result, SeekTarget, Vnode};

/// Opens a file so that parts of it can be read, changed and written back at their places, for somebody who opens it with
/// `flags`; see [`OpenFlags::for_rewriting`].
///
/// The caller needs the permissions that it asks for and no more: where it may write but not read, the server reads.
///
/// # Errors
/// As open(2) with `flags`; also where the file can be opened for appending only.
pub fn open_for_rewriting(vnode: &dyn Vnode, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
    let wanted = flags.for_rewriting();
    match vnode.open(caller, wanted) {
        Err(Errno::EACCES) if flags.writes() && !flags.reads() => {
            vnode.open(caller, flags.without(OpenFlags::TRUNCATE))?;
            vnode.open(&Caller::server(), wanted)
        }
        answer => answer,
    }
}

/// A shared open file.
pub type OpenFileRef = Arc<dyn OpenFile>;

/// An open regular file. Offsets and lengths are bytes of the file as its reader sees it.
///
/// What may be done depends on how it was opened (`EBADF` otherwise), not on the caller, as for a file descriptor.
/// Concurrent calls are allowed; a write is atomic towards reads and writes as far as the lower file system's is.
pub trait OpenFile: Send + Sync + 'static {
    /// Reads up to `buffer.len()` bytes at `offset`, fewer only at the end of the file, 0 past it.
    ///
    /// # Errors
    /// As pread(2).
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes `data` at `offset`, or at the end if the file was opened for appending, whatever `offset` says: then
    /// writers never overwrite each other. Fewer bytes than asked only when storage ran out half-way.
    /// `kill_privileges`: set-id bits and `security.capability` are cleared, whoever the caller is. Default: `EBADF`.
    ///
    /// # Errors
    /// As pwrite(2).
    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8], kill_privileges: bool) -> Result<usize> {
        let _ = (caller, offset, data, kill_privileges);
        Err(Errno::EBADF)
    }

    /// The attributes, as fstat(2): also of an unlinked file, with `nlink` 0.
    ///
    /// # Errors
    /// Those of the storage.
    fn getattr(&self, caller: &Caller) -> Result<Attributes>;

    /// Sets the size, as ftruncate(2): allowed by how the file was opened. Default: `EINVAL`.
    ///
    /// # Errors
    /// As ftruncate(2).
    fn truncate(&self, caller: &Caller, size: u64, kill_privileges: bool) -> Result<()> {
        let _ = (caller, size, kill_privileges);
        Err(Errno::EINVAL)
    }

    /// A descriptor was closed (there may be others): the owner's POSIX locks on the file go, and an error of earlier
    /// writes that nobody has seen yet is told. Default: nothing to do.
    ///
    /// # Errors
    /// As close(2).
    fn flush(&self, caller: &Caller, owner: LockOwner) -> Result<()> {
        let _ = (caller, owner);
        Ok(())
    }

    /// Whether [`OpenFile::flush`] may have something to tell or to do beside releasing locks, whoever wrote to the file and by
    /// which way. Default: yes.
    fn closing_tells(&self) -> bool {
        true
    }

    /// Whether the file's data are as they were if its size, mtime and ctime are, where the
    /// [properties](crate::Properties::times_tell_changes) leave it to single files. Default: yes.
    fn times_tell_changes(&self) -> bool {
        true
    }

    /// What was written reaches stable storage; with `data_only` not the attributes that reading does not need.
    /// Default: nothing to do.
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

    /// The next data or hole at or after `offset`, as lseek(2). Default: all is data, up to the size.
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

    /// Copies within the file system without the data coming up, as copy_file_range(2); fewer bytes are allowed.
    /// Default: `EXDEV`, at which a front end or program copies by reading and writing.
    ///
    /// # Errors
    /// `EXDEV` where it cannot be done; as copy_file_range(2).
    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        let _ = (caller, offset, to, to_offset, length);
        Err(Errno::EXDEV)
    }

    /// Takes or releases a lock for `owner`, at once: whoever wants to wait tries again. Default: `EOPNOTSUPP`, at which
    /// a front end keeps locks to itself.
    ///
    /// # Errors
    /// `EAGAIN` if another owner's lock is in the way; `EBADF` as fcntl(2).
    fn lock(&self, caller: &Caller, owner: LockOwner, lock: &Lock) -> Result<()> {
        let _ = (caller, owner, lock);
        Err(Errno::EOPNOTSUPP)
    }

    /// A lock that stands in the way of `lock` for `owner`, as `F_GETLK`; `None` if it could be taken.
    /// Default: `EOPNOTSUPP`.
    ///
    /// # Errors
    /// As fcntl(2).
    fn test_lock(&self, caller: &Caller, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        let _ = (caller, owner, lock);
        Err(Errno::EOPNOTSUPP)
    }

    /// As [`crate::Vnode::ioctl`], for an open file. Default: `ENOTTY`.
    ///
    /// # Errors
    /// `ENOTTY` for a command that nobody here knows.
    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let _ = (caller, command, input, output);
        Err(Errno::ENOTTY)
    }

    /// Which of the `POLL*` events of poll(2) hold now. Default: those of a regular file, always ready.
    ///
    /// # Errors
    /// Those of the storage.
    fn poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        let _ = caller;
        Ok(events & (libc::POLLIN | libc::POLLOUT | libc::POLLRDNORM | libc::POLLWRNORM) as u32)
    }

    /// The file of the base that holds exactly this data, for the kernel to read and write it by itself. Asked only
    /// where [`crate::Properties::allows_passthrough`] holds. Until its next operation the calling thread has the credentials
    /// that whoever opened the file writes with: a system call that writes to the descriptor is made at once. Default: none.
    fn backing(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The file itself, for the file system that made it to know its own again in `copy_range`.
    fn as_any(&self) -> &dyn Any;
}
