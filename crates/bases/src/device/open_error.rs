//! Reasons why a file or block device cannot be opened as a device, with remedies.

use std::fmt;
use std::path::PathBuf;

use vnode::{Errno, shortage};

/// The reason why a file or block device cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The path does not exist.
    Missing(PathBuf),
    /// A file that is to be created exists.
    Exists(PathBuf),
    /// The path is neither a regular file nor a block device.
    NotAFileOrDevice(PathBuf),
    /// Reaching the object, reading it, or writing it as required, is not permitted.
    NoPermission(PathBuf),
    /// The object has to be written, and its medium or file system is read-only.
    ReadOnly(PathBuf),
    /// Others use the object in a way that excludes this one.
    InUse {
        /// The path.
        path: PathBuf,
        /// The other user.
        user: DeviceUser,
    },
    /// /proc, through which open objects are named, is not mounted.
    NoProc,
    /// Any other error.
    Failed(PathBuf, Errno),
}

/// The user of a file or block device who excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceUser {
    /// A process that has locked it: a mount of Plyfs, or a program that formats or checks it.
    Process,
    /// The kernel, or a process that has opened it exclusively: the device, or another part of the disk, is mounted, swap space, or
    /// part of a volume group.
    Kernel,
}

impl OpenError {
    /// Returns whether others use the object.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse { .. })
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => {
                write!(formatter, "there is no file `{}`: check the path, or create it first", path.display())
            }
            Self::Exists(path) => {
                write!(formatter, "`{}` exists already: remove it first, or choose another name", path.display())
            }
            Self::NotAFileOrDevice(path) => write!(
                formatter,
                "`{}` is neither a regular file nor a block device: name the image or the device",
                path.display()
            ),
            Self::NoPermission(path) => write!(
                formatter,
                "no permission to open `{}`: run as a user who may read it, and write it unless it is only read",
                path.display()
            ),
            Self::ReadOnly(path) => write!(
                formatter,
                "`{}` cannot be written: its medium or file system is read-only; use a copy on another",
                path.display()
            ),
            Self::InUse { path, user: DeviceUser::Process } => write!(
                formatter,
                "`{}` is in use by another mount, or is being formatted or checked: unmount it (to list the mounts: plyfs status), \
                 or wait",
                path.display()
            ),
            Self::InUse { path, user: DeviceUser::Kernel } => write!(
                formatter,
                "the device `{}` is in use: unmount it, or a file system on the same disk, with umount(8) (to list them: lsblk)",
                path.display()
            ),
            Self::NoProc => formatter.write_str("/proc is not there: mount it (mount -t proc proc /proc)"),
            Self::Failed(path, errno) => {
                let remedy = shortage::remedy(&(*errno).into());
                write!(formatter, "cannot open `{}`: {errno}{remedy}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {}
