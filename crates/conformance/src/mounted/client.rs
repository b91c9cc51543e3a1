//! The path system calls of a client, executed in its own thread.

use std::ffi::CString;
use std::os::fd::IntoRawFd;
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};

use super::convert::{last_error, number, stat_of, timestamps};
use super::directory::MountedDirectory;
use super::file::MountedFile;
use super::handle;
use super::worker::Worker;
use crate::subject::Result;
use crate::{Client, Directory, File, Space, Stat, TimeChange};

pub(crate) struct MountedClient {
    worker: Arc<Worker>,
}

impl MountedClient {
    pub(crate) fn new(worker: Worker) -> Self {
        Self { worker: Arc::new(worker) }
    }

    /// Runs system calls on a path in the client's thread.
    fn at<R: Send + 'static>(
        &self,
        path: &[u8],
        function: impl FnOnce(&[u8]) -> rustix::io::Result<R> + Send + 'static,
    ) -> Result<R> {
        let path = path.to_vec();
        self.worker.call(move || function(&path)).map_err(number)
    }

    fn chown_with(&self, path: &[u8], uid: Option<u32>, gid: Option<u32>, flags: AtFlags) -> Result<()> {
        self.at(path, move |path| rustix::fs::chownat(CWD, path, uid.map(Uid::from_raw), gid.map(Gid::from_raw), flags))
    }
}

impl Client for MountedClient {
    fn open(&self, path: &[u8], flags: i32, mode: u32) -> Result<Box<dyn File>> {
        let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
        let descriptor = self.at(path, move |path| {
            rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(mode)).map(IntoRawFd::into_raw_fd)
        })?;
        Ok(Box::new(MountedFile::new(self.worker.clone(), descriptor)))
    }

    fn open_by_handle(&self, path: &[u8], flags: i32) -> Result<Box<dyn File>> {
        let descriptor = self.at(path, move |path| handle::open(path, flags))?;
        Ok(Box::new(MountedFile::new(self.worker.clone(), descriptor)))
    }

    fn open_directory(&self, path: &[u8]) -> Result<Box<dyn Directory>> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor =
            self.at(path, move |path| rustix::fs::openat(CWD, path, flags, Mode::empty()).map(IntoRawFd::into_raw_fd))?;
        Ok(Box::new(MountedDirectory::new(self.worker.clone(), descriptor)))
    }

    fn stat(&self, path: &[u8]) -> Result<Stat> {
        self.at(path, |path| stat_of(CWD, path, AtFlags::empty()))
    }

    fn lstat(&self, path: &[u8]) -> Result<Stat> {
        self.at(path, |path| stat_of(CWD, path, AtFlags::SYMLINK_NOFOLLOW))
    }

    fn access(&self, path: &[u8], mode: i32) -> Result<()> {
        let access = Access::from_bits_retain(mode as u32);
        self.at(path, move |path| rustix::fs::accessat(CWD, path, access, AtFlags::empty()))
    }

    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode);
        self.at(path, move |path| rustix::fs::mkdirat(CWD, path, mode))
    }

    fn mknod(&self, path: &[u8], mode: u32, device: (u32, u32)) -> Result<()> {
        let kind = FileType::from_raw_mode(mode);
        let device = rustix::fs::makedev(device.0, device.1);
        let mode = Mode::from_raw_mode(mode);
        self.at(path, move |path| rustix::fs::mknodat(CWD, path, kind, mode, device))
    }

    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        let target = target.to_vec();
        self.at(path, move |path| rustix::fs::symlinkat(&target[..], CWD, path))
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.at(path, |path| rustix::fs::readlinkat(CWD, path, Vec::new()).map(|target| target.into_bytes()))
    }

    fn link(&self, existing: &[u8], path: &[u8]) -> Result<()> {
        let existing = existing.to_vec();
        self.at(path, move |path| rustix::fs::linkat(CWD, &existing[..], CWD, path, AtFlags::empty()))
    }

    fn unlink(&self, path: &[u8]) -> Result<()> {
        self.at(path, |path| rustix::fs::unlinkat(CWD, path, AtFlags::empty()))
    }

    fn rmdir(&self, path: &[u8]) -> Result<()> {
        self.at(path, |path| rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR))
    }

    fn rename_with(&self, from: &[u8], to: &[u8], flags: u32) -> Result<()> {
        let from = from.to_vec();
        let flags = RenameFlags::from_bits_retain(flags);
        self.at(to, move |to| rustix::fs::renameat_with(CWD, &from[..], CWD, to, flags))
    }

    fn chmod(&self, path: &[u8], mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode);
        self.at(path, move |path| rustix::fs::chmodat(CWD, path, mode, AtFlags::empty()))
    }

    fn chown(&self, path: &[u8], uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.chown_with(path, uid, gid, AtFlags::empty())
    }

    fn lchown(&self, path: &[u8], uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.chown_with(path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn truncate(&self, path: &[u8], length: u64) -> Result<()> {
        self.at(path, move |path| {
            let path = c_string(path)?;
            // SAFETY: the path is a live zero-terminated string.
            match unsafe { libc::truncate(path.as_ptr(), length as libc::off_t) } {
                0 => Ok(()),
                _ => Err(last_error()),
            }
        })
    }

    fn set_times(&self, path: &[u8], access: TimeChange, modification: TimeChange, follow: bool) -> Result<()> {
        let times = timestamps(access, modification);
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        self.at(path, move |path| rustix::fs::utimensat(CWD, path, &times, flags))
    }

    fn statfs(&self, path: &[u8]) -> Result<Space> {
        self.at(path, |path| {
            let space = rustix::fs::statvfs(path)?;
            Ok(Space {
                block_size: space.f_frsize,
                blocks: space.f_blocks,
                blocks_free: space.f_bfree,
                blocks_available: space.f_bavail,
                files: space.f_files,
                files_free: space.f_ffree,
                name_max: space.f_namemax,
            })
        })
    }

    fn getxattr(&self, path: &[u8], name: &[u8], size: usize) -> Result<Vec<u8>> {
        let name = name.to_vec();
        self.at(path, move |path| {
            let (path, name) = (c_string(path)?, c_string(&name)?);
            // SAFETY: both strings are live and zero-terminated; the buffer has the given size.
            with_buffer(size, |buffer| unsafe {
                libc::lgetxattr(path.as_ptr(), name.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len())
            })
        })
    }

    fn setxattr(&self, path: &[u8], name: &[u8], value: &[u8], flags: i32) -> Result<()> {
        let (name, value) = (name.to_vec(), value.to_vec());
        let flags = XattrFlags::from_bits_retain(flags as u32);
        self.at(path, move |path| rustix::fs::lsetxattr(path, &name[..], &value, flags))
    }

    fn listxattr(&self, path: &[u8], size: usize) -> Result<Vec<u8>> {
        self.at(path, move |path| {
            let path = c_string(path)?;
            // SAFETY: as in `getxattr`.
            with_buffer(size, |buffer| unsafe {
                libc::llistxattr(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len())
            })
        })
    }

    fn removexattr(&self, path: &[u8], name: &[u8]) -> Result<()> {
        let name = name.to_vec();
        self.at(path, move |path| rustix::fs::lremovexattr(path, &name[..]))
    }

    fn umask(&self, mask: u32) -> u32 {
        let mask = Mode::from_raw_mode(mask);
        self.worker.call(move || rustix::process::umask(mask)).as_raw_mode()
    }

    fn chdir(&self, path: &[u8]) -> Result<()> {
        self.at(path, |path| rustix::process::chdir(path))
    }

    fn sync(&self) -> Result<()> {
        self.at(b".", |path| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
            rustix::fs::syncfs(directory)
        })
    }
}

fn c_string(bytes: &[u8]) -> rustix::io::Result<CString> {
    CString::new(bytes).map_err(|_| rustix::io::Errno::INVAL)
}

/// Runs a call that fills a buffer, and returns as many bytes as the call reports.
fn with_buffer(size: usize, call: impl FnOnce(&mut [u8]) -> isize) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; size];
    let length = usize::try_from(call(&mut buffer)).map_err(|_| last_error())?;
    buffer.resize(length, 0);
    Ok(buffer)
}
