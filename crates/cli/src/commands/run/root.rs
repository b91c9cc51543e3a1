//! The fork of the whole tree: mounted at a private location, together with the unforked parts of the machine, as the root of
//! the command.
//!
//! The scratch directory is in that tree, so an empty file system covers it: the command does not see its own changes there,
//! and the fork is mounted in that unforked file system.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use procfs::DescriptorPath;
use rustix::fs::{Mode, mkdirat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, mount_bind_recursive, move_mount, unmount,
};

use crate::exit::{Exit, Failure, Outcome};

/// Directories that are not forked: devices, processes, and the means to talk to them.
const SHARED_DIRECTORIES: [&str; 4] = ["dev", "proc", "run", "sys"];

/// The mount point in the file system that covers the scratch directory.
const MOUNT_POINT_NAME: &str = "root";

/// A mount point for the fork of `/`. Dropping it removes everything of it.
pub(crate) struct ForkRoot {
    /// The file system over the scratch directory.
    cover: OwnedFd,
    /// Path of the fork's mount point: through the descriptor, since others may rename components of the path to the scratch
    /// directory. Valid for this process, and for a child of it until that calls exec.
    pub mount_point: PathBuf,
}

impl ForkRoot {
    /// Covers the scratch directory and makes the mount point.
    pub(crate) fn prepare(scratch: BorrowedFd<'_>) -> Outcome<Self> {
        let cover = cover(scratch).map_err(|error| failed("cover the scratch directory", &error))?;
        mkdirat(&cover, MOUNT_POINT_NAME, Mode::RWXU).map_err(|error| failed("make a mount point", &error))?;
        let mount_point = descriptor_path(cover.as_fd()).join(MOUNT_POINT_NAME);
        Ok(Self { cover, mount_point })
    }

    /// Mounts the unforked directories in the fork, once it is mounted.
    pub(crate) fn bind_shared(&self) -> Outcome {
        for name in SHARED_DIRECTORIES {
            let (there, here) = (Path::new("/").join(name), self.mount_point.join(name));
            if there.is_dir() && here.is_dir() {
                mount_bind_recursive(&there, &here).map_err(|error| failed("bring devices into the fork", &error))?;
            }
        }
        Ok(())
    }

    /// Unmounts them again, before the fork is unmounted.
    pub(crate) fn unbind_shared(&self) {
        for name in SHARED_DIRECTORIES {
            // A directory that was not mounted need not be unmounted.
            let _ = unmount(self.mount_point.join(name), UnmountFlags::DETACH);
        }
    }
}

impl Drop for ForkRoot {
    fn drop(&mut self) {
        let _ = unmount(descriptor_path(self.cover.as_fd()), UnmountFlags::DETACH);
    }
}

/// Mounts an empty file system, which only the caller can search, on a directory, and returns its root.
fn cover(directory: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let file_system = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(file_system.as_fd(), "source", "plyfs")?;
    fsconfig_set_string(file_system.as_fd(), "mode", "0700")?;
    fsconfig_create(file_system.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let root = fsmount(file_system.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(root.as_fd(), "", directory, "", flags)?;
    Ok(root)
}

fn descriptor_path(descriptor: BorrowedFd<'_>) -> PathBuf {
    DescriptorPath::new(descriptor).as_path().to_owned()
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Mount, format!("cannot {what}: {error}; fork the directories that matter instead of /"))
}

/// Changes to the new root and to a directory in it: for a new process, before it becomes the command.
pub(crate) fn enter(root: &CStr, directory: &CStr) -> io::Result<()> {
    rustix::process::chroot(root)?;
    Ok(rustix::process::chdir(directory)?)
}
