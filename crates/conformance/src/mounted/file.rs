//! The system calls of a client on an open file, executed in its own thread.

use std::any::Any;
use std::os::fd::RawFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FallocateFlags, Gid, Mode, SeekFrom, Uid};

use super::convert::{last_error, number, stat_of, timestamps};
use super::mapping::MountedMapping;
use super::worker::{Worker, own};
use crate::subject::Result;
use crate::{Errno, File, Lock, LockKind, Mapping, Stat, TimeChange};

pub(crate) struct MountedFile {
    worker: Arc<Worker>,
    /// `None` once the file is closed.
    descriptor: Option<RawFd>,
}

impl MountedFile {
    pub(crate) fn new(worker: Arc<Worker>, descriptor: RawFd) -> Self {
        Self { worker, descriptor: Some(descriptor) }
    }

    fn raw(&self) -> RawFd {
        self.descriptor.expect("the file is open until it is closed")
    }

    /// Runs system calls on the file in the client's thread.
    fn on<R: Send + 'static>(
        &self,
        function: impl FnOnce(RawFd) -> rustix::io::Result<R> + Send + 'static,
    ) -> Result<R> {
        let descriptor = self.raw();
        self.worker.call(move || function(descriptor)).map_err(number)
    }

    /// Runs a reading call with a buffer that the client's thread can own.
    fn fill(
        &self,
        buffer: &mut [u8],
        function: impl FnOnce(RawFd, &mut [u8]) -> rustix::io::Result<usize> + Send + 'static,
    ) -> Result<usize> {
        let mut data = vec![0; buffer.len()];
        let (read, data) = self.on(move |descriptor| {
            let read = function(descriptor, &mut data)?;
            Ok((read, data))
        })?;
        buffer[..read].copy_from_slice(&data[..read]);
        Ok(read)
    }
}

impl File for MountedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.fill(buffer, move |descriptor, data| rustix::io::pread(own(descriptor), data, offset))
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        let data = data.to_vec();
        self.on(move |descriptor| rustix::io::pwrite(own(descriptor), &data, offset))
    }

    fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        self.fill(buffer, |descriptor, data| rustix::io::read(own(descriptor), data))
    }

    fn write(&self, data: &[u8]) -> Result<usize> {
        let data = data.to_vec();
        self.on(move |descriptor| rustix::io::write(own(descriptor), &data))
    }

    fn seek(&self, offset: i64, whence: i32) -> Result<u64> {
        let to = match whence {
            libc::SEEK_SET => SeekFrom::Start(offset as u64),
            libc::SEEK_CUR => SeekFrom::Current(offset),
            libc::SEEK_END => SeekFrom::End(offset),
            libc::SEEK_DATA => SeekFrom::Data(offset as u64),
            libc::SEEK_HOLE => SeekFrom::Hole(offset as u64),
            _ => return Err(Errno::EINVAL),
        };
        self.on(move |descriptor| rustix::fs::seek(own(descriptor), to))
    }

    fn stat(&self) -> Result<Stat> {
        self.on(|descriptor| stat_of(own(descriptor), b"", AtFlags::EMPTY_PATH))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.on(move |descriptor| rustix::fs::ftruncate(own(descriptor), length))
    }

    fn chmod(&self, mode: u32) -> Result<()> {
        self.on(move |descriptor| rustix::fs::fchmod(own(descriptor), Mode::from_raw_mode(mode)))
    }

    fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        self.on(move |descriptor| rustix::fs::fchown(own(descriptor), uid, gid))
    }

    fn set_times(&self, access: TimeChange, modification: TimeChange) -> Result<()> {
        let times = timestamps(access, modification);
        self.on(move |descriptor| rustix::fs::futimens(own(descriptor), &times))
    }

    fn allocate(&self, mode: i32, offset: u64, length: u64) -> Result<()> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        self.on(move |descriptor| rustix::fs::fallocate(own(descriptor), mode, offset, length))
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        let to = to.as_any().downcast_ref::<Self>();
        let to = to.ok_or(Errno::EXDEV)?.raw();
        self.on(move |descriptor| {
            let (mut offset, mut to_offset) = (offset, to_offset);
            rustix::fs::copy_file_range(
                own(descriptor),
                Some(&mut offset),
                own(to),
                Some(&mut to_offset),
                length as usize,
            )
            .map(|copied| copied as u64)
        })
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.on(move |descriptor| match data_only {
            true => rustix::fs::fdatasync(own(descriptor)),
            false => rustix::fs::fsync(own(descriptor)),
        })
    }

    fn lock(&self, lock: Lock, wait: bool) -> Result<()> {
        let command = if wait { libc::F_SETLKW } else { libc::F_SETLK };
        self.on(move |descriptor| control_lock(descriptor, command, lock).map(|_| ()))
    }

    fn test_lock(&self, lock: Lock) -> Result<Option<Lock>> {
        let found = self.on(move |descriptor| control_lock(descriptor, libc::F_GETLK, lock))?;
        Ok(Some(found).filter(|lock| lock.kind != LockKind::Unlock))
    }

    fn flock(&self, operation: i32) -> Result<()> {
        self.on(move |descriptor| {
            // SAFETY: the call does not access memory.
            match unsafe { libc::flock(descriptor, operation) } {
                0 => Ok(()),
                _ => Err(last_error()),
            }
        })
    }

    fn link(&self, path: &[u8]) -> Result<()> {
        let path = path.to_vec();
        self.on(move |descriptor| {
            let open = format!("/proc/thread-self/fd/{descriptor}");
            rustix::fs::linkat(CWD, open, CWD, &path[..], AtFlags::SYMLINK_FOLLOW)
        })
    }

    fn map(&self, length: usize, shared: bool, writable: bool) -> Result<Box<dyn Mapping>> {
        let mapping = self.on(move |descriptor| MountedMapping::new(descriptor, length, shared, writable))?;
        Ok(Box::new(mapping))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        let descriptor = self.descriptor.take().expect("closing consumes the file");
        let closed = self.worker.call(move || {
            // SAFETY: this object owned the descriptor and released it above.
            match unsafe { libc::close(descriptor) } {
                0 => Ok(()),
                _ => Err(last_error()),
            }
        });
        closed.map_err(number)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for MountedFile {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            self.worker.call(move || {
                // SAFETY: this object owned the descriptor and nothing uses it afterwards.
                unsafe { rustix::io::close(descriptor) }
            });
        }
    }
}

fn control_lock(descriptor: RawFd, command: i32, lock: Lock) -> rustix::io::Result<Lock> {
    let kind = match lock.kind {
        LockKind::Read => libc::F_RDLCK,
        LockKind::Write => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    };
    let mut raw = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: lock.start as libc::off_t,
        l_len: lock.length as libc::off_t,
        l_pid: 0,
    };
    // SAFETY: the lock is a live structure of the type that these commands expect.
    if unsafe { libc::fcntl(descriptor, command, &raw mut raw) } != 0 {
        return Err(last_error());
    }
    let kind = match i32::from(raw.l_type) {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        _ => LockKind::Unlock,
    };
    Ok(Lock::new(kind, raw.l_start as u64, raw.l_len as u64))
}
