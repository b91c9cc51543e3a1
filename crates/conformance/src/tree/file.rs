//! An open file of a tree: offset, locks and the checks that the kernel makes.

use std::any::Any;
use std::sync::Mutex;
use std::time::Duration;

use vnode::{
    AllocateMode, Caller, Errno, LockFamily, LockOwner, OpenFileRef, OpenFlags, Result, SeekTarget, SetAttributes,
    VnodeRef,
};

use super::calls::{change, check_length, new_owner, retry, times};
use super::convert::stat_of;
use super::walk::PathWalk;
use crate::{File, Lock, LockKind, Mapping, Stat, TimeChange};

pub(crate) struct TreeFile {
    caller: Caller,
    /// The client, as the owner of range locks.
    client: LockOwner,
    /// This open file, as the owner of whole-file locks.
    own: LockOwner,
    root: VnodeRef,
    working_directory: VnodeRef,
    vnode: VnodeRef,
    open: OpenFileRef,
    flags: OpenFlags,
    position: Mutex<u64>,
    is_closed: bool,
}

impl TreeFile {
    pub(crate) fn new(
        caller: Caller,
        client: LockOwner,
        root: VnodeRef,
        working_directory: VnodeRef,
        vnode: VnodeRef,
        open: OpenFileRef,
        flags: OpenFlags,
    ) -> Self {
        Self {
            caller,
            client,
            own: new_owner(),
            root,
            working_directory,
            vnode,
            open,
            flags,
            position: Mutex::new(0),
            is_closed: false,
        }
    }

    /// Acquires a lock, or polls until it is available.
    fn acquire_lock(&self, owner: &LockOwner, lock: &vnode::Lock, wait: bool) -> Result<()> {
        loop {
            match self.open.lock(&self.caller, owner, lock) {
                Err(Errno::EAGAIN) if wait => std::thread::sleep(Duration::from_millis(1)),
                other => return other,
            }
        }
    }

    /// Copies with reads and writes, as the kernel does where the file system does not support copying.
    fn copy_with_buffer(&self, offset: u64, to: &Self, to_offset: u64, length: u64) -> Result<u64> {
        let mut data = vec![0; length.min(1 << 20) as usize];
        let read = self.read_at(&mut data, offset)?;
        to.write_at(&data[..read], to_offset).map(|written| written as u64)
    }
}

impl File for TreeFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.open.read_at(&self.caller, check_length(offset)?, buffer)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        if !self.flags.writes() {
            return Err(Errno::EBADF);
        }
        if data.is_empty() {
            return Ok(0);
        }
        self.open.write_at(&self.caller, check_length(offset)?, data)
    }

    fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        let mut position = self.position.lock().expect("no panic with the lock held");
        let read = self.read_at(buffer, *position)?;
        *position += read as u64;
        Ok(read)
    }

    fn write(&self, data: &[u8]) -> Result<usize> {
        let mut position = self.position.lock().expect("no panic with the lock held");
        let written = self.write_at(data, *position)?;
        *position = if self.flags.appends() { self.stat()?.size } else { *position + written as u64 };
        Ok(written)
    }

    fn seek(&self, offset: i64, whence: i32) -> Result<u64> {
        let mut position = self.position.lock().expect("no panic with the lock held");
        let sparse = |target| {
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            self.open.seek(&self.caller, offset, target)
        };
        let from = |start: u64| start.checked_add_signed(offset).ok_or(Errno::EINVAL).and_then(check_length);
        *position = match whence {
            libc::SEEK_SET => from(0)?,
            libc::SEEK_CUR => from(*position)?,
            libc::SEEK_END => from(self.stat()?.size)?,
            libc::SEEK_DATA => sparse(SeekTarget::Data)?,
            libc::SEEK_HOLE => sparse(SeekTarget::Hole)?,
            _ => return Err(Errno::EINVAL),
        };
        Ok(*position)
    }

    fn stat(&self) -> Result<Stat> {
        self.open.getattr(&self.caller).map(stat_of)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        if !self.flags.writes() {
            return Err(Errno::EINVAL);
        }
        self.open.truncate(&self.caller, check_length(length)?)
    }

    fn chmod(&self, mode: u32) -> Result<()> {
        change(&self.caller, &self.vnode, &SetAttributes { mode: Some(mode), ..SetAttributes::default() })
    }

    fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        change(&self.caller, &self.vnode, &SetAttributes { uid, gid, ..SetAttributes::default() })
    }

    fn set_times(&self, access: TimeChange, modification: TimeChange) -> Result<()> {
        change(&self.caller, &self.vnode, &times(access, modification))
    }

    fn allocate(&self, mode: i32, offset: u64, length: u64) -> Result<()> {
        let mode = AllocateMode::from_bits(mode as u32);
        if length == 0 {
            return Err(Errno::EINVAL);
        }
        if mode.contains(AllocateMode::PUNCH_HOLE) && !mode.contains(AllocateMode::KEEP_SIZE) {
            return Err(Errno::EOPNOTSUPP);
        }
        if !self.flags.writes() {
            return Err(Errno::EBADF);
        }
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        check_length(end).map_err(|_| Errno::EFBIG)?;
        self.open.allocate(&self.caller, mode, offset, length)
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        let to = to.as_any().downcast_ref::<Self>().ok_or(Errno::EXDEV)?;
        if !self.flags.reads() || !to.flags.writes() || to.flags.appends() {
            return Err(Errno::EBADF);
        }
        let size = self.stat()?.size;
        let length = length.min(size.saturating_sub(offset));
        if length == 0 {
            return Ok(0);
        }
        if self.vnode.handle() == to.vnode.handle() && offset < to_offset + length && to_offset < offset + length {
            return Err(Errno::EINVAL);
        }
        match self.open.copy_range(&self.caller, offset, &to.open, to_offset, length) {
            Err(Errno::EXDEV | Errno::EOPNOTSUPP) => self.copy_with_buffer(offset, to, to_offset, length),
            other => other,
        }
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.open.fsync(&self.caller, data_only)
    }

    fn lock(&self, lock: Lock, wait: bool) -> Result<()> {
        match lock.kind {
            LockKind::Read if !self.flags.reads() => return Err(Errno::EBADF),
            LockKind::Write if !self.flags.writes() => return Err(Errno::EBADF),
            _ => {}
        }
        self.acquire_lock(&self.client, &to_vnode_lock(lock), wait)
    }

    fn test_lock(&self, lock: Lock) -> Result<Option<Lock>> {
        Ok(self.open.test_lock(&self.caller, &self.client, &to_vnode_lock(lock))?.map(from_vnode_lock))
    }

    fn flock(&self, operation: i32) -> Result<()> {
        let kind = match operation & !libc::LOCK_NB {
            libc::LOCK_SH => vnode::LockKind::Shared,
            libc::LOCK_EX => vnode::LockKind::Exclusive,
            libc::LOCK_UN => vnode::LockKind::Unlock,
            _ => return Err(Errno::EINVAL),
        };
        let lock = vnode::Lock { family: LockFamily::Flock, kind, start: 0, end: u64::MAX, pid: 0 };
        self.acquire_lock(&self.own, &lock, operation & libc::LOCK_NB == 0)
    }

    fn link(&self, path: &[u8]) -> Result<()> {
        retry(|| {
            let parent =
                PathWalk::new(&self.caller, self.root.clone()).resolve_parent(&self.working_directory, path)?;
            parent.directory.link(&self.caller, &self.vnode, parent.name(Errno::EEXIST)?).map(drop)
        })
    }

    fn map(&self, _length: usize, _shared: bool, _writable: bool) -> Result<Box<dyn Mapping>> {
        Err(Errno::ENODEV)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.is_closed = true;
        self.open.flush(&self.caller, &self.client)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for TreeFile {
    fn drop(&mut self) {
        if !self.is_closed {
            let _ = self.open.flush(&self.caller, &self.client);
        }
    }
}

/// Converts a range lock to the type of the vnode interface.
fn to_vnode_lock(lock: Lock) -> vnode::Lock {
    let kind = match lock.kind {
        LockKind::Read => vnode::LockKind::Shared,
        LockKind::Write => vnode::LockKind::Exclusive,
        LockKind::Unlock => vnode::LockKind::Unlock,
    };
    let end = match lock.length {
        0 => u64::MAX,
        length => lock.start.saturating_add(length - 1),
    };
    vnode::Lock { family: LockFamily::Posix, kind, start: lock.start, end, pid: std::process::id() }
}

/// Converts a range lock to the type of the tests.
fn from_vnode_lock(lock: vnode::Lock) -> Lock {
    let kind = match lock.kind {
        vnode::LockKind::Shared => LockKind::Read,
        vnode::LockKind::Exclusive => LockKind::Write,
        vnode::LockKind::Unlock => LockKind::Unlock,
    };
    // The maximum file offset means the end of the file as well.
    let length = if lock.end >= i64::MAX as u64 { 0 } else { lock.end - lock.start + 1 };
    Lock::new(kind, lock.start, length)
}
