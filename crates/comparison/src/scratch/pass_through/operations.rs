//! The operations of a file system: each sample overrides those that it does in another way.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use fuser::{FileAttr, FileType, FopenFlags, MountOption, TimeOrNow};
use rustix::fs::{RenameFlags, StatVfs};
use rustix::io::Errno;

use super::Caller;

/// What an operation answers.
pub type Result<T> = std::result::Result<T, Errno>;

/// What is to be set of an object: nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttributes {
    /// Permissions.
    pub mode: Option<u32>,
    /// The owner.
    pub user: Option<u32>,
    /// The group.
    pub group: Option<u32>,
    /// The size of a file.
    pub size: Option<u64>,
    /// When it was last read.
    pub accessed: Option<TimeOrNow>,
    /// When it was last written.
    pub modified: Option<TimeOrNow>,
    /// The open file that it is done through, if any.
    pub handle: Option<u64>,
}

/// A name that a directory lists.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The object's number.
    pub number: u64,
    /// What the object is.
    pub kind: FileType,
    /// The name.
    pub name: OsString,
}

/// The number of the first ioctl that a sample has, which gives so many bytes.
pub const fn write_command(length: usize) -> u32 {
    1 << 30 | (length as u32) << 16 | (b'F' as u32) << 8 | 1
}

/// What is asked of a file system. What is not overridden is done below.
///
/// Objects and open files have numbers; an answer with attributes counts as one look-up of their number.
pub trait Operations: Send + Sync + 'static {
    /// What does the rest.
    fn below(&self) -> &dyn Operations;

    /// Options that it is mounted with.
    fn mount_options(&self) -> Vec<MountOption> {
        self.below().mount_options()
    }

    /// How the kernel is to treat open files.
    fn open_flags(&self) -> FopenFlags {
        self.below().open_flags()
    }

    /// Attributes as users see them.
    fn present(&self, attributes: FileAttr) -> FileAttr {
        self.below().present(attributes)
    }

    /// The name below of a name.
    fn encode_name<'a>(&self, name: &'a OsStr) -> Result<Cow<'a, OsStr>> {
        self.below().encode_name(name)
    }

    /// The name of a name below, if it is to be seen.
    fn decode_name(&self, name: OsString) -> Option<OsString> {
        self.below().decode_name(name)
    }

    /// Finds a name.
    fn lookup(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<FileAttr> {
        self.below().lookup(caller, parent, name)
    }

    /// Takes look-ups back.
    fn forget(&self, number: u64, lookups: u64) {
        self.below().forget(number, lookups)
    }

    /// The attributes of an object.
    fn getattr(&self, number: u64) -> Result<FileAttr> {
        self.below().getattr(number)
    }

    /// Changes attributes.
    fn setattr(&self, caller: &Caller, number: u64, changes: &SetAttributes) -> Result<FileAttr> {
        self.below().setattr(caller, number, changes)
    }

    /// Where a symbolic link points to.
    fn readlink(&self, number: u64) -> Result<Vec<u8>> {
        self.below().readlink(number)
    }

    /// Makes a file, a device, a pipe or a socket.
    fn mknod(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, device: u32) -> Result<FileAttr> {
        self.below().mknod(caller, parent, name, mode, device)
    }

    /// Makes a directory.
    fn mkdir(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32) -> Result<FileAttr> {
        self.below().mkdir(caller, parent, name, mode)
    }

    /// Makes a symbolic link.
    fn symlink(&self, caller: &Caller, parent: u64, name: &OsStr, target: &Path) -> Result<FileAttr> {
        self.below().symlink(caller, parent, name, target)
    }

    /// Gives an object one more name.
    fn link(&self, caller: &Caller, number: u64, parent: u64, name: &OsStr) -> Result<FileAttr> {
        self.below().link(caller, number, parent, name)
    }

    /// Makes a file and opens it.
    fn create(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, flags: i32) -> Result<(FileAttr, u64)> {
        self.below().create(caller, parent, name, mode, flags)
    }

    /// Deletes the name of what is no directory.
    fn unlink(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        self.below().unlink(caller, parent, name)
    }

    /// Deletes an empty directory.
    fn rmdir(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        self.below().rmdir(caller, parent, name)
    }

    /// Renames.
    fn rename(&self, caller: &Caller, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Result<()> {
        self.below().rename(caller, from, to, flags)
    }

    /// Opens a file.
    fn open(&self, caller: &Caller, number: u64, flags: i32) -> Result<u64> {
        self.below().open(caller, number, flags)
    }

    /// Reads; less than was asked for only at the end.
    fn read(&self, number: u64, handle: u64, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.below().read(number, handle, offset, length)
    }

    /// Writes, and answers how much.
    fn write(&self, caller: &Caller, number: u64, handle: u64, offset: u64, data: &[u8]) -> Result<usize> {
        self.below().write(caller, number, handle, offset, data)
    }

    /// Writes to the disk what is in memory only.
    fn fsync(&self, handle: u64, is_data_only: bool) -> Result<()> {
        self.below().fsync(handle, is_data_only)
    }

    /// Reserves or frees room.
    fn fallocate(&self, number: u64, handle: u64, mode: i32, offset: u64, length: u64) -> Result<()> {
        self.below().fallocate(number, handle, mode, offset, length)
    }

    /// Finds data or holes.
    fn lseek(&self, number: u64, handle: u64, offset: u64, whence: i32) -> Result<u64> {
        self.below().lseek(number, handle, offset, whence)
    }

    /// Closes a file.
    fn release(&self, handle: u64) {
        self.below().release(handle)
    }

    /// Opens a directory.
    fn opendir(&self, caller: &Caller, number: u64) -> Result<u64> {
        self.below().opendir(caller, number)
    }

    /// All names of an open directory.
    fn list(&self, caller: &Caller, number: u64, handle: u64) -> Result<Vec<Listed>> {
        self.below().list(caller, number, handle)
    }

    /// Writes an open directory to the disk.
    fn fsyncdir(&self, handle: u64, is_data_only: bool) -> Result<()> {
        self.below().fsyncdir(handle, is_data_only)
    }

    /// Closes a directory.
    fn releasedir(&self, handle: u64) {
        self.below().releasedir(handle)
    }

    /// How large and how full the file system is.
    fn statfs(&self, number: u64) -> Result<StatVfs> {
        self.below().statfs(number)
    }

    /// The value of an extended attribute.
    fn getxattr(&self, caller: &Caller, number: u64, name: &OsStr) -> Result<Vec<u8>> {
        self.below().getxattr(caller, number, name)
    }

    /// Sets an extended attribute.
    fn setxattr(&self, caller: &Caller, number: u64, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        self.below().setxattr(caller, number, name, value, flags)
    }

    /// The names of extended attributes, each with a zero behind it.
    fn listxattr(&self, caller: &Caller, number: u64) -> Result<Vec<u8>> {
        self.below().listxattr(caller, number)
    }

    /// Removes an extended attribute.
    fn removexattr(&self, caller: &Caller, number: u64, name: &OsStr) -> Result<()> {
        self.below().removexattr(caller, number, name)
    }

    /// Whether the caller may do that.
    fn access(&self, caller: &Caller, number: u64, mask: i32) -> Result<()> {
        self.below().access(caller, number, mask)
    }

    /// Does a command that gives and takes data.
    fn ioctl(&self, caller: &Caller, number: u64, command: u32, data: &[u8]) -> Result<Vec<u8>> {
        self.below().ioctl(caller, number, command, data)
    }
}
