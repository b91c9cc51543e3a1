//! System calls whose result depends on the credentials of the thread, as methods of the acting credentials.
//!
//! Calls that need only a descriptor are made where they are needed: status of open objects, reads, synchronization, locks.

use std::ffi::{CStr, c_int};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use procfs::DescriptorPath;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Timestamps, Uid,
};
use rustix::fs::{Dev, XattrFlags};
use rustix::io::Result;
use rustix::path::Arg;

use super::credentials::AssumedCredentials;
use super::handle::FileHandle;
use super::status::Status;
use super::system;

/// `O_PATH` on the object itself, whatever its kind.
pub(crate) const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Objects by name.
impl AssumedCredentials<'_> {
    /// openat(2) of an existing object.
    pub(crate) fn open_at(&self, directory: impl AsFd, name: impl Arg, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::openat(directory, name, flags, Mode::empty())
    }

    /// openat(2), with `O_CREAT` or `O_TMPFILE`.
    pub(crate) fn create_at(&self, directory: impl AsFd, name: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        rustix::fs::openat(directory, name, flags, mode)
    }

    /// openat2(2).
    pub(crate) fn open_within(
        &self,
        directory: impl AsFd,
        name: impl Arg,
        flags: OFlags,
        how: ResolveFlags,
    ) -> Result<OwnedFd> {
        rustix::fs::openat2(directory, name, flags, Mode::empty(), how)
    }

    /// statx(2) by name, without following a symlink.
    pub(crate) fn status_at(&self, directory: impl AsFd, name: impl Arg) -> vnode::Result<Status> {
        Status::at(directory, name)
    }

    /// statx(2) by name; see [`Status::cached_at`].
    pub(crate) fn cached_status_at(&self, directory: impl AsFd, name: impl Arg) -> vnode::Result<Status> {
        Status::cached_at(directory, name)
    }

    /// name_to_handle_at(2) by name; see [`system::name_to_handle_at`].
    pub(crate) fn handle_at(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<FileHandle> {
        system::name_to_handle_at(directory, name, 0)
    }

    /// mkdirat(2).
    pub(crate) fn make_directory_at(&self, directory: impl AsFd, name: impl Arg, mode: Mode) -> Result<()> {
        rustix::fs::mkdirat(directory, name, mode)
    }

    /// mknodat(2).
    pub(crate) fn make_node_at(
        &self,
        directory: impl AsFd,
        name: impl Arg,
        kind: FileType,
        mode: Mode,
        number: Dev,
    ) -> Result<()> {
        rustix::fs::mknodat(directory, name, kind, mode, number)
    }

    /// symlinkat(2).
    pub(crate) fn make_symlink_at(&self, target: impl Arg, directory: impl AsFd, name: impl Arg) -> Result<()> {
        rustix::fs::symlinkat(target, directory, name)
    }

    /// linkat(2) of an object by descriptor.
    pub(crate) fn link_at(&self, object: impl AsFd, directory: impl AsFd, name: impl Arg) -> Result<()> {
        let path = DescriptorPath::new(&object);
        rustix::fs::linkat(CWD, path.as_c_str(), directory, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// unlinkat(2).
    pub(crate) fn remove_at(&self, directory: impl AsFd, name: impl Arg, flags: AtFlags) -> Result<()> {
        rustix::fs::unlinkat(directory, name, flags)
    }

    /// renameat2(2); without flags renameat(2), which all file systems support.
    pub(crate) fn rename_at(
        &self,
        from: impl AsFd,
        name: impl Arg,
        to: impl AsFd,
        to_name: impl Arg,
        flags: RenameFlags,
    ) -> Result<()> {
        match flags.is_empty() {
            true => rustix::fs::renameat(from, name, to, to_name),
            false => rustix::fs::renameat_with(from, name, to, to_name, flags),
        }
    }
}

/// Objects by an `O_PATH` descriptor.
impl AssumedCredentials<'_> {
    /// Reopens the object of a descriptor with other flags. The last component is a /proc link that has to be followed; the
    /// object it leads to is not followed any further.
    pub(crate) fn reopen(&self, object: impl AsFd, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC;
        rustix::fs::open(DescriptorPath::new(&object).as_c_str(), flags, Mode::empty())
    }

    /// open_by_handle_at(2); see [`system::open_by_handle_at`].
    pub(crate) fn open_by_handle(&self, mount: BorrowedFd<'_>, handle: &FileHandle, flags: OFlags) -> Result<OwnedFd> {
        system::open_by_handle_at(mount, handle, flags.bits() as c_int)
    }

    /// faccessat2(2).
    pub(crate) fn access(&self, object: impl AsFd, mode: u32) -> Result<()> {
        system::access(object.as_fd(), mode)
    }

    /// fchownat(2).
    pub(crate) fn change_owner(&self, object: impl AsFd, uid: Option<Uid>, gid: Option<Gid>) -> Result<()> {
        rustix::fs::chownat(object, c"", uid, gid, AtFlags::EMPTY_PATH)
    }

    /// fchmodat2(2), or chmod(2) before Linux 6.6.
    pub(crate) fn change_mode(&self, object: impl AsFd, mode: Mode) -> Result<()> {
        match system::change_mode(object.as_fd(), mode.as_raw_mode()) {
            Err(rustix::io::Errno::NOSYS) => rustix::fs::chmod(DescriptorPath::new(&object).as_c_str(), mode),
            changed => changed,
        }
    }

    /// utimensat(2).
    pub(crate) fn set_times(&self, object: impl AsFd, times: &Timestamps) -> Result<()> {
        rustix::fs::utimensat(object, c"", times, AtFlags::EMPTY_PATH)
    }

    /// truncate(2).
    pub(crate) fn truncate(&self, object: impl AsFd, size: i64) -> Result<()> {
        system::truncate(DescriptorPath::new(&object).as_c_str(), size)
    }

    /// getxattr(2).
    pub(crate) fn attribute(&self, object: impl AsFd, name: &[u8], value: &mut [u8]) -> Result<usize> {
        rustix::fs::getxattr(DescriptorPath::new(&object).as_c_str(), name, value)
    }

    /// setxattr(2).
    pub(crate) fn set_attribute(&self, object: impl AsFd, name: &[u8], value: &[u8], flags: XattrFlags) -> Result<()> {
        rustix::fs::setxattr(DescriptorPath::new(&object).as_c_str(), name, value, flags)
    }

    /// listxattr(2).
    pub(crate) fn list_attributes(&self, object: impl AsFd, names: &mut [u8]) -> Result<usize> {
        rustix::fs::listxattr(DescriptorPath::new(&object).as_c_str(), names)
    }

    /// listxattrat(2); see [`system::list_attributes_at`].
    pub(crate) fn list_attributes_at(&self, directory: impl AsFd, name: &CStr, names: &mut [u8]) -> Result<usize> {
        system::list_attributes_at(directory.as_fd(), name, names)
    }

    /// removexattr(2).
    pub(crate) fn remove_attribute(&self, object: impl AsFd, name: &[u8]) -> Result<()> {
        rustix::fs::removexattr(DescriptorPath::new(&object).as_c_str(), name)
    }
}

/// Open files: the space they take on the file system is charged to the writer, and a write by most callers clears the
/// set-id bits and file capabilities.
impl AssumedCredentials<'_> {
    /// pwrite(2).
    pub(crate) fn write(&self, file: impl AsFd, data: &[u8], offset: u64) -> Result<usize> {
        rustix::io::pwrite(file, data, offset)
    }

    /// ftruncate(2).
    pub(crate) fn set_size(&self, file: impl AsFd, size: u64) -> Result<()> {
        rustix::fs::ftruncate(file, size)
    }

    /// fallocate(2).
    pub(crate) fn allocate(&self, file: impl AsFd, flags: FallocateFlags, offset: u64, length: u64) -> Result<()> {
        rustix::fs::fallocate(file, flags, offset, length)
    }

    /// copy_file_range(2).
    pub(crate) fn copy(
        &self,
        (from, offset): (impl AsFd, &mut u64),
        (to, to_offset): (impl AsFd, &mut u64),
        length: usize,
    ) -> Result<usize> {
        rustix::fs::copy_file_range(from, Some(offset), to, Some(to_offset), length)
    }
}
