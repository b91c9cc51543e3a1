//! Errors of mounting.

use crate::fuse::transport::device::DEVICE_PATH;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a mount failed: the cause, with the remedy in its text.
#[derive(Debug)]
pub enum MountError {
    /// There is no FUSE device.
    NoDevice,
    /// The FUSE device may not be opened.
    DevicePermission,
    /// The mount point does not exist.
    MountPointMissing(PathBuf),
    /// The mount point is not a directory.
    MountPointNotDirectory(PathBuf),
    /// The mount point may not be accessed.
    MountPointPermission(PathBuf),
    /// A FUSE file system is mounted there already.
    MountPointBusy(PathBuf),
    /// A FUSE file system whose server died is mounted there.
    MountPointDead(PathBuf),
    /// mount(2) is not allowed, although the process is root in its namespace.
    NotPermitted,
    /// The process is not root and there is no `fusermount3`.
    NoHelper,
    /// `fusermount3` refused, because of `user_allow_other` missing in `/etc/fuse.conf`.
    AllowOtherRefused,
    /// `fusermount3` refused; with its own message.
    Helper(String),
    /// A path with a zero byte in it.
    BadPath(PathBuf),
    /// The kernel speaks a FUSE protocol older than 7.31.
    KernelTooOld {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The mount disappeared before it was set up.
    Vanished,
    /// io_uring was requested and cannot be used, for this reason.
    NoUring(&'static str),
    /// The writeback cache was requested and cannot be used, for this reason.
    NoWriteBack(&'static str),
    /// Another system call failed.
    System {
        /// The step that failed.
        what: &'static str,
        /// The error of that step.
        error: io::Error,
    },
}

impl fmt::Display for MountError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use MountError as E;
        match self {
            E::NoDevice => write!(
                formatter,
                "there is no {DEVICE_PATH}: load the kernel module with `modprobe fuse`, or give the container \
                 `--device {DEVICE_PATH}`"
            ),
            E::DevicePermission => {
                write!(formatter, "{DEVICE_PATH} may not be opened: run as root, or `chmod 666 {DEVICE_PATH}`")
            }
            E::MountPointMissing(path) => {
                write!(formatter, "the mount point {0} does not exist: create it with `mkdir {0}`", path.display())
            }
            E::MountPointNotDirectory(path) => {
                write!(formatter, "the mount point {} is not a directory: choose or create one", path.display())
            }
            E::MountPointPermission(path) => write!(
                formatter,
                "the mount point {} may not be reached: choose one that you own, or run as root",
                path.display()
            ),
            E::MountPointBusy(path) => write!(
                formatter,
                "a FUSE file system is mounted on {0} already: unmount it with `plyfs umount {0}`",
                path.display()
            ),
            E::MountPointDead(path) => write!(
                formatter,
                "the server of the FUSE file system mounted on {0} has died: unmount it with `plyfs umount {0}`",
                path.display()
            ),
            E::NotPermitted => formatter.write_str(
                "mounting is not permitted here: give the container CAP_SYS_ADMIN, or run in a user namespace of \
                 its own",
            ),
            E::NoHelper => formatter.write_str(
                "only root may mount without fusermount3, which was not found: install the package fuse3, or run \
                 as root",
            ),
            E::AllowOtherRefused => formatter.write_str(
                "allow_other is only for root unless /etc/fuse.conf has a line `user_allow_other`: add it, or leave \
                 the option out",
            ),
            E::Helper(message) => write!(formatter, "fusermount3 refused to mount: {message}"),
            E::BadPath(path) => write!(formatter, "the path {path:?} holds a zero byte: write it without"),
            E::KernelTooOld { major, minor } => write!(
                formatter,
                "the kernel speaks FUSE {major}.{minor}, at least 7.31 is needed: use Linux 5.10 or later"
            ),
            E::Vanished => formatter.write_str("the mount was taken away while it was set up: try again"),
            E::NoUring(reason) => {
                write!(
                    formatter,
                    "requests cannot come through io_uring: {reason}; leave --uring=on out to do without it"
                )
            }
            E::NoWriteBack(reason) => {
                write!(formatter, "the kernel cannot keep writes: {reason}; leave writes=back out to do without it")
            }
            E::System { what, error } => write!(formatter, "{what} failed: {error}{}", vnode::shortage::remedy(error)),
        }
    }
}

impl std::error::Error for MountError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MountError::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Returns the error for a mount point that cannot be opened.
pub(crate) fn mount_point_error(path: &Path, error: io::Error) -> MountError {
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => MountError::MountPointMissing(path.into()),
        Some(Errno::NOTCONN) => MountError::MountPointDead(path.into()),
        Some(Errno::NOTDIR) => MountError::MountPointNotDirectory(path.into()),
        Some(Errno::ACCESS | Errno::PERM) => MountError::MountPointPermission(path.into()),
        Some(Errno::INVAL) => MountError::BadPath(path.into()),
        _ => MountError::System { what: "opening the mount point", error },
    }
}
