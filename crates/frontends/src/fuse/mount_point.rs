//! Mount points: directories that are found by path once and held from then on, so that whoever may rename what is on the
//! way to one cannot have another one mounted on, changed or unmounted.

use super::helper::unmount_by_helper;
use super::mount_flags::MountFlags;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use vnode::mount_table;

/// How to unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// Fails with `EBUSY` while files are open.
    Clean,
    /// Takes the name away now; what is open stays usable until it is closed.
    Lazy,
    /// Takes the name away and fails what is under way or open.
    Abort,
}

/// Opens a directory without asking its file system, which may not answer.
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory that something is mounted on, or may be. A mount cannot be unmounted cleanly while its root is held.
#[derive(Debug)]
pub struct MountPoint {
    descriptor: OwnedFd,
    path: PathBuf,
    mount: u64,
}

impl MountPoint {
    /// The directory on this path; if something is mounted there, the root of the topmost mount. No file system is asked but
    /// those on the way.
    ///
    /// # Errors
    /// As open(2); those of reading `/proc/self`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::held(rustix::fs::open(path, PATH_ONLY, Mode::empty())?)
    }

    /// Opens the directory that the kernel lists by this path, which has no symlinks in it.
    ///
    /// # Errors
    /// As [`MountPoint::open`]; `ELOOP` for a symlink, which has taken the place of a directory.
    pub fn open_listed(path: &Path) -> io::Result<Self> {
        Self::held(openat2(CWD, path, PATH_ONLY, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
    }

    fn held(descriptor: OwnedFd) -> io::Result<Self> {
        let mount = mount_of(descriptor.as_fd())?;
        let path = std::fs::read_link(place_of(descriptor.as_fd()))?;
        Ok(Self { descriptor, path, mount })
    }

    /// The path that it had when it was opened, as the kernel lists mounts: absolute, without symlinks.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's number of the mount that the directory is in: the first field of its line in proc_pid_mountinfo(5).
    pub fn mount(&self) -> u64 {
        self.mount
    }

    /// A path that leads to it, whatever is renamed: for this process, as long as the value lives.
    pub fn place(&self) -> PathBuf {
        place_of(self.descriptor.as_fd())
    }

    /// Gives the mount whose root this is other flags, as `mount -o remount`; its server is to be told by
    /// [`Mount::flags_changed`](super::Mount::flags_changed). The kernel hands on all that it has kept first.
    ///
    /// # Errors
    /// `EBUSY` if it is to become read-only and files are open for writing; `EPERM`; `EINVAL` if it is the root of no mount.
    pub fn remount(&self, flags: &MountFlags) -> io::Result<()> {
        Ok(rustix::mount::mount_remount(self.place(), flags.to_kernel(), c"")?)
    }

    /// Unmounts the mount whose root this is.
    ///
    /// # Errors
    /// `EBUSY` while it is in use and the mode is clean, or if another one is on that path by now; `EINVAL` if it is the root of
    /// no mount; `EPERM`.
    pub fn unmount(self, mode: UnmountMode) -> io::Result<()> {
        let is_root = rustix::process::geteuid().is_root();
        let detach = match mode {
            UnmountMode::Clean => None,
            UnmountMode::Lazy => Some(UnmountFlags::DETACH),
            UnmountMode::Abort => Some(UnmountFlags::DETACH | UnmountFlags::FORCE),
        };
        if let (Some(flags), true) = (detach, is_root) {
            return Ok(rustix::mount::unmount(self.place(), flags)?);
        }
        // Held, it would be in use: it is named in the directory that it is in, which is held in its place.
        let (parent, name) = self.parent()?;
        drop(self);
        match is_root {
            true => {
                let place = place_of(parent.as_fd()).join(name);
                Ok(rustix::mount::unmount(place, UnmountFlags::NOFOLLOW)?)
            }
            false => unmount_by_helper(&place_of(parent.as_fd()), &name, detach.is_some()),
        }
    }

    /// The directory that it is in, and its name there, by which the same mount is found.
    fn parent(&self) -> io::Result<(OwnedFd, OsString)> {
        // It may have been moved since.
        let path = std::fs::read_link(self.place())?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::BUSY.into());
        };
        let parent = openat2(CWD, parent, PATH_ONLY, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        let flags = PATH_ONLY | OFlags::NOFOLLOW;
        let found = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
        match mount_of(found.as_fd())? == self.mount {
            true => Ok((parent, name.to_owned())),
            false => Err(Errno::BUSY.into()),
        }
    }
}

impl AsFd for MountPoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn place_of(descriptor: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

/// The number of the mount that this is in. Unlike statx(2), reading it asks no file system anything, also not whether the
/// caller may.
fn mount_of(descriptor: BorrowedFd<'_>) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
}

/// A mount that has a place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedMount {
    /// Its number.
    pub(crate) mount: u64,
    /// The device of its file system, as makedev(3) makes it.
    pub(crate) device: u64,
    /// The path of its mount point.
    pub(crate) path: PathBuf,
    /// The type of its file system.
    pub(crate) kind: OsString,
}

/// The mounts that have a place in the tree, in the order in which they were made.
pub(crate) fn listed_mounts() -> Vec<ListedMount> {
    let table = std::fs::read(mount_table::OWN).unwrap_or_default();
    mount_table::mounts(&table).map(ListedMount::of).collect()
}

impl ListedMount {
    fn of(mount: mount_table::Mount<'_>) -> Self {
        let owned = |field: Cow<'_, [u8]>| OsString::from_vec(field.into_owned());
        let path = PathBuf::from(owned(mount.mount_point));
        Self { mount: mount.number, device: mount.device, path, kind: owned(mount.kind) }
    }

    /// Whether it is of this type.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == OsStr::new(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_directory_is_held_whatever_becomes_of_its_path() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(path("parent/point")).unwrap();
        symlink(path("parent"), path("link")).unwrap();
        let point = MountPoint::open(&path("link/point")).unwrap();
        assert_eq!(point.path(), path("parent/point"));
        assert_eq!(point.mount(), MountPoint::open(scratch.path()).unwrap().mount());
        assert!(listed_mounts().iter().any(|listed| listed.mount == point.mount()));
        let by_link = MountPoint::open_listed(&path("link/point")).map(drop).map_err(|error| error.raw_os_error());
        assert_eq!(by_link, Err(Some(libc::ELOOP)));
        std::fs::rename(path("parent"), path("other")).unwrap();
        std::fs::write(point.place().join("file"), "x").unwrap();
        assert!(path("other/point/file").exists());
    }

    #[test]
    fn what_is_no_mount_is_not_unmounted() {
        let scratch = tempfile::tempdir().unwrap();
        for mode in [UnmountMode::Clean, UnmountMode::Lazy, UnmountMode::Abort] {
            let refused = MountPoint::open(scratch.path()).unwrap().unmount(mode);
            assert!(refused.is_err(), "{mode:?}");
        }
    }
}
