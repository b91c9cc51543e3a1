//! Each operation, done in a directory.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use fuser::{FileAttr, FopenFlags, MountOption};
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, StatVfs, Timestamps,
    XattrFlags,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::attributes::{attributes, device, timestamp};
use super::inodes::Inodes;
use super::{Caller, Handles, Listed, Operations, Result, SetAttributes, directory};

/// The most that an extended attribute, or all names of them, can have.
const XATTR_BYTES_MAX: usize = 64 << 10;
/// What opens nothing, but stands for an object.
const REFERENCE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A file system that shows a directory as it is.
pub struct PassThrough {
    inodes: Inodes,
    files: Handles<OwnedFd>,
    directories: Handles<OwnedFd>,
}

/// The path of what a descriptor stands for, whatever its name is now.
pub fn path_of(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// The flags below of an open file. The kernel says where to append, and keeps pages itself.
fn flags_below(flags: i32) -> OFlags {
    let above = OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::DIRECT | OFlags::NOCTTY;
    OFlags::from_bits_retain(flags as u32).difference(above) | OFlags::CLOEXEC
}

impl PassThrough {
    /// Shows that directory.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(root: &Path) -> Result<Self> {
        let root = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { inodes: Inodes::new(root)?, files: Handles::default(), directories: Handles::default() })
    }

    /// What stands for an object below, but opens nothing.
    ///
    /// # Errors
    /// `ESTALE` if the kernel does not know it.
    pub fn node(&self, number: u64) -> Result<Arc<OwnedFd>> {
        self.inodes.get(number)
    }

    /// What is open below.
    ///
    /// # Errors
    /// `EBADF` if nothing is.
    pub fn file(&self, handle: u64) -> Result<Arc<OwnedFd>> {
        self.files.get(handle)
    }

    /// Opens a file anew, as the file system itself, to read what only part is written of.
    ///
    /// # Errors
    /// What the system says.
    pub fn widen(&self, number: u64, handle: u64) -> Result<()> {
        let file = rustix::fs::open(path_of(&*self.node(number)?), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        self.files.replace(handle, file);
        Ok(())
    }

    /// Does something to an object below by its path, as the caller.
    fn by_path<T>(&self, caller: &Caller, number: u64, work: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let _acting = caller.act()?;
        work(&path_of(&*self.node(number)?))
    }

    /// Does something in a directory below, as the caller.
    fn within<T>(&self, caller: &Caller, parent: u64, work: impl FnOnce(&OwnedFd) -> Result<T>) -> Result<T> {
        let _acting = caller.act()?;
        work(&*self.node(parent)?)
    }

    /// As [`Self::within`] for what makes a name, which is found then.
    fn make(
        &self,
        caller: &Caller,
        parent: u64,
        name: &OsStr,
        work: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<FileAttr> {
        self.within(caller, parent, |directory| {
            work(directory)?;
            self.enter(rustix::fs::openat(directory.as_fd(), name, REFERENCE, Mode::empty())?)
        })
    }

    fn enter(&self, descriptor: OwnedFd) -> Result<FileAttr> {
        let status = rustix::fs::fstat(&descriptor)?;
        Ok(attributes(self.inodes.enter(descriptor, &status), &status))
    }

    fn resize(&self, caller: &Caller, number: u64, handle: Option<u64>, size: u64) -> Result<()> {
        match handle {
            Some(handle) => {
                let _acting = caller.act_without_groups()?;
                rustix::fs::ftruncate(self.file(handle)?, size)
            }
            None => self.by_path(caller, number, |path| {
                let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
                rustix::fs::ftruncate(file, size)
            }),
        }
    }
}

impl Operations for PassThrough {
    fn below(&self) -> &dyn Operations {
        self
    }

    fn mount_options(&self) -> Vec<MountOption> {
        Vec::new()
    }

    fn open_flags(&self) -> FopenFlags {
        FopenFlags::empty()
    }

    fn present(&self, attributes: FileAttr) -> FileAttr {
        attributes
    }

    fn encode_name<'a>(&self, name: &'a OsStr) -> Result<Cow<'a, OsStr>> {
        Ok(Cow::Borrowed(name))
    }

    fn decode_name(&self, name: OsString) -> Option<OsString> {
        Some(name)
    }

    fn lookup(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<FileAttr> {
        self.make(caller, parent, name, |_| Ok(()))
    }

    fn forget(&self, number: u64, lookups: u64) {
        self.inodes.forget(number, lookups);
    }

    fn getattr(&self, number: u64) -> Result<FileAttr> {
        Ok(attributes(number, &rustix::fs::fstat(&self.node(number)?)?))
    }

    fn setattr(&self, caller: &Caller, number: u64, changes: &SetAttributes) -> Result<FileAttr> {
        if let Some(size) = changes.size {
            self.resize(caller, number, changes.handle, size)?;
        }
        let node = self.node(number)?;
        let _acting = caller.act()?;
        if changes.user.is_some() || changes.group.is_some() {
            let (user, group) = (changes.user.map(Uid::from_raw), changes.group.map(Gid::from_raw));
            rustix::fs::chownat(&node, "", user, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = changes.mode {
            rustix::fs::chmod(path_of(&node), Mode::from_raw_mode(mode & 0o7777))?;
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let (last_access, last_modification) = (timestamp(changes.accessed), timestamp(changes.modified));
            rustix::fs::utimensat(&node, "", &Timestamps { last_access, last_modification }, AtFlags::EMPTY_PATH)?;
        }
        self.getattr(number)
    }

    fn readlink(&self, number: u64) -> Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.node(number)?, "", Vec::new())?.into_bytes())
    }

    fn mknod(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, number: u32) -> Result<FileAttr> {
        let (kind, mode) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode & 0o7777));
        self.make(caller, parent, name, |directory| rustix::fs::mknodat(directory, name, kind, mode, device(number)))
    }

    fn mkdir(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32) -> Result<FileAttr> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.make(caller, parent, name, |directory| rustix::fs::mkdirat(directory, name, mode))
    }

    fn symlink(&self, caller: &Caller, parent: u64, name: &OsStr, target: &Path) -> Result<FileAttr> {
        self.make(caller, parent, name, |directory| rustix::fs::symlinkat(target, directory, name))
    }

    fn link(&self, caller: &Caller, number: u64, parent: u64, name: &OsStr) -> Result<FileAttr> {
        let node = self.node(number)?;
        self.make(caller, parent, name, |directory| {
            rustix::fs::linkat(CWD, path_of(&node), directory, name, AtFlags::SYMLINK_FOLLOW)
        })
    }

    fn create(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, flags: i32) -> Result<(FileAttr, u64)> {
        let exclusive = OFlags::from_bits_retain(flags as u32) & OFlags::EXCL;
        let flags = flags_below(flags) | OFlags::CREATE | OFlags::NOFOLLOW | exclusive;
        self.within(caller, parent, |directory| {
            let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(mode & 0o7777))?;
            let reference = OFlags::PATH | OFlags::CLOEXEC;
            let entry = self.enter(rustix::fs::open(path_of(&file), reference, Mode::empty())?)?;
            Ok((entry, self.files.insert(file)))
        })
    }

    fn unlink(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        self.within(caller, parent, |directory| rustix::fs::unlinkat(directory, name, AtFlags::empty()))
    }

    fn rmdir(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        self.within(caller, parent, |directory| rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR))
    }

    fn rename(&self, caller: &Caller, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Result<()> {
        let target = self.node(to.0)?;
        self.within(caller, from.0, |source| rustix::fs::renameat_with(source, from.1, target, to.1, flags))
    }

    fn open(&self, caller: &Caller, number: u64, flags: i32) -> Result<u64> {
        let file = self.by_path(caller, number, |path| rustix::fs::open(path, flags_below(flags), Mode::empty()))?;
        Ok(self.files.insert(file))
    }

    fn read(&self, _number: u64, handle: u64, offset: u64, length: usize) -> Result<Vec<u8>> {
        read_all(&*self.file(handle)?, offset, length)
    }

    fn write(&self, caller: &Caller, _number: u64, handle: u64, offset: u64, data: &[u8]) -> Result<usize> {
        // As the caller, who perhaps may not keep the set-user-id bit of what is written.
        let _acting = caller.act_without_groups()?;
        rustix::io::pwrite(self.file(handle)?, data, offset)
    }

    fn fsync(&self, handle: u64, is_data_only: bool) -> Result<()> {
        let file = self.file(handle)?;
        if is_data_only { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) }
    }

    fn fallocate(&self, _number: u64, handle: u64, mode: i32, offset: u64, length: u64) -> Result<()> {
        rustix::fs::fallocate(self.file(handle)?, FallocateFlags::from_bits_retain(mode as u32), offset, length)
    }

    fn lseek(&self, _number: u64, handle: u64, offset: u64, whence: i32) -> Result<u64> {
        let position = if whence == libc::SEEK_HOLE { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
        rustix::fs::seek(self.file(handle)?, position)
    }

    fn release(&self, handle: u64) {
        self.files.remove(handle);
    }

    fn opendir(&self, caller: &Caller, number: u64) -> Result<u64> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = self.by_path(caller, number, |path| rustix::fs::open(path, flags, Mode::empty()))?;
        Ok(self.directories.insert(directory))
    }

    fn list(&self, _caller: &Caller, _number: u64, handle: u64) -> Result<Vec<Listed>> {
        directory::read(&*self.directories.get(handle)?)
    }

    fn fsyncdir(&self, handle: u64, is_data_only: bool) -> Result<()> {
        let directory = self.directories.get(handle)?;
        if is_data_only { rustix::fs::fdatasync(directory) } else { rustix::fs::fsync(directory) }
    }

    fn releasedir(&self, handle: u64) {
        self.directories.remove(handle);
    }

    fn statfs(&self, number: u64) -> Result<StatVfs> {
        rustix::fs::fstatvfs(self.node(number)?)
    }

    fn getxattr(&self, caller: &Caller, number: u64, name: &OsStr) -> Result<Vec<u8>> {
        let mut value = vec![0; XATTR_BYTES_MAX];
        let length = self.by_path(caller, number, |path| rustix::fs::getxattr(path, name, &mut value[..]))?;
        value.truncate(length);
        Ok(value)
    }

    fn setxattr(&self, caller: &Caller, number: u64, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let flags = XattrFlags::from_bits_retain(flags as u32);
        self.by_path(caller, number, |path| rustix::fs::setxattr(path, name, value, flags))
    }

    fn listxattr(&self, caller: &Caller, number: u64) -> Result<Vec<u8>> {
        let mut names = vec![0; XATTR_BYTES_MAX];
        let length = self.by_path(caller, number, |path| rustix::fs::listxattr(path, &mut names[..]))?;
        names.truncate(length);
        Ok(names)
    }

    fn removexattr(&self, caller: &Caller, number: u64, name: &OsStr) -> Result<()> {
        self.by_path(caller, number, |path| rustix::fs::removexattr(path, name))
    }

    fn access(&self, caller: &Caller, number: u64, mask: i32) -> Result<()> {
        let wanted = Access::from_bits_retain(mask as u32);
        self.by_path(caller, number, |path| rustix::fs::accessat(CWD, path, wanted, AtFlags::EACCESS))
    }

    fn ioctl(&self, _caller: &Caller, _number: u64, _command: u32, _data: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::NOTTY)
    }
}

/// Reads until there is so much, or the end.
pub fn read_all(file: &OwnedFd, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut data = vec![0; length];
    let mut done = 0;
    while done < length {
        match rustix::io::pread(file, &mut data[done..], offset + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    data.truncate(done);
    Ok(data)
}
