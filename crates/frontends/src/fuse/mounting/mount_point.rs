//! Mount points: directories that are looked up by path once and held from then on, so that somebody who may rename components
//! of the path cannot redirect a mount, remount or unmount to another directory.

use super::flags::MountFlags;
use super::helper::unmount_by_helper;
use procfs::{DescriptorPath, mount_id, mount_table};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Modes of unmounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// Fails with `EBUSY` while files are open.
    Clean,
    /// Detaches the mount now; open files stay usable until they are closed.
    Lazy,
    /// Detaches the mount, and aborts requests in flight and open files.
    Abort,
}

/// `STATX_MNT_ID_UNIQUE` of statx(2).
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Flags that open a directory without involving its file system, which may hang.
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory that is a mount point, or may become one. A mount cannot be unmounted cleanly while its root is held.
#[derive(Debug)]
pub struct MountPoint {
    descriptor: OwnedFd,
    path: PathBuf,
    mount: u64,
}

impl MountPoint {
    /// Opens the directory at this path; if something is mounted there, the root of the topmost mount. No file systems are
    /// involved but those along the path.
    ///
    /// # Errors
    /// As open(2); those of reading `/proc/self`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::from_descriptor(rustix::fs::open(path, PATH_ONLY, Mode::empty())?)
    }

    /// Opens the directory that the kernel lists with this path, which contains no symlinks.
    ///
    /// # Errors
    /// As [`MountPoint::open`]; `ELOOP` for a symlink that has replaced a directory.
    pub fn open_listed(path: &Path) -> io::Result<Self> {
        Self::from_descriptor(openat2(CWD, path, PATH_ONLY, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
    }

    fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
        let mount = mount_id(descriptor.as_fd())?;
        let path = std::fs::read_link(proc_path_of(descriptor.as_fd()))?;
        Ok(Self { descriptor, path, mount })
    }

    /// Returns the path that the directory had when it was opened, as the kernel lists mounts: absolute, without symlinks.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the kernel's id of the mount that contains the directory: the first field of its line in proc_pid_mountinfo(5).
    pub fn mount(&self) -> u64 {
        self.mount
    }

    /// Returns the kernel's id of that mount that no other mount ever has; `None` before Linux 6.8. No file system is asked for
    /// anything.
    fn unique_mount(&self) -> Option<u64> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = statx(&self.descriptor, c"", flags, UNIQUE_MOUNT).ok()?;
        (found.stx_mask & UNIQUE_MOUNT.bits() != 0).then_some(found.stx_mnt_id)
    }

    /// Returns a path that leads to the directory, whatever is renamed: valid in this process, as long as the value lives.
    pub fn proc_path(&self) -> PathBuf {
        proc_path_of(self.descriptor.as_fd())
    }

    /// Changes the flags of the mount whose root this is, as `mount -o remount`; its server must be notified by
    /// [`Mount::flags_changed`](crate::fuse::Mount::flags_changed). The kernel first writes back all dirty data.
    ///
    /// # Errors
    /// `EBUSY` if it is to become read-only and files are open for writing; `EPERM`; `EINVAL` if it is not the root of a
    /// mount.
    pub fn remount(&self, flags: &MountFlags) -> io::Result<()> {
        Ok(rustix::mount::mount_remount(self.proc_path(), flags.to_kernel(), c"")?)
    }

    /// Unmounts the mount whose root this is.
    ///
    /// # Errors
    /// `EBUSY` while it is in use and the mode is clean, or if another mount is on that path by now; `EINVAL` if it is not the
    /// root of a mount; `EPERM`.
    pub fn unmount(self, mode: UnmountMode) -> io::Result<()> {
        let is_root = rustix::process::geteuid().is_root();
        let detach = match mode {
            UnmountMode::Clean => None,
            UnmountMode::Lazy => Some(UnmountFlags::DETACH),
            UnmountMode::Abort => Some(UnmountFlags::DETACH | UnmountFlags::FORCE),
        };
        if let (Some(flags), true) = (detach, is_root) {
            return Ok(rustix::mount::unmount(self.proc_path(), flags)?);
        }
        // Holding it would keep it in use: it is referred to by its name in its parent directory, which is held instead.
        let (parent, name) = self.parent()?;
        drop(self);
        match is_root {
            true => {
                let path = proc_path_of(parent.as_fd()).join(name);
                Ok(rustix::mount::unmount(path, UnmountFlags::NOFOLLOW)?)
            }
            false => unmount_by_helper(&proc_path_of(parent.as_fd()), &name, detach.is_some()),
        }
    }

    /// Returns the parent directory, and the name there by which the same mount is found.
    fn parent(&self) -> io::Result<(OwnedFd, OsString)> {
        // It may have been moved since.
        let path = std::fs::read_link(self.proc_path())?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::BUSY.into());
        };
        let parent = openat2(CWD, parent, PATH_ONLY, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        let flags = PATH_ONLY | OFlags::NOFOLLOW;
        let found = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
        match mount_id(found.as_fd())? == self.mount {
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

fn proc_path_of(descriptor: BorrowedFd<'_>) -> PathBuf {
    DescriptorPath::new(descriptor).as_path().to_owned()
}

/// A mount that is attached to the mount tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedMount {
    /// The id of the mount.
    pub(crate) mount: u64,
    /// The device number of its file system, as composed by makedev(3).
    pub(crate) device: u64,
    /// The path of its mount point.
    pub(crate) path: PathBuf,
    /// The type of its file system.
    pub(crate) kind: OsString,
}

/// Returns the mounts that are attached to the mount tree, in the order in which they were made.
pub(crate) fn listed_mounts() -> Vec<ListedMount> {
    let table = mount_table::read().unwrap_or_default();
    mount_table::mounts(&table).map(ListedMount::of).collect()
}

impl ListedMount {
    fn of(mount: mount_table::Mount<'_>) -> Self {
        let owned = |field: Cow<'_, [u8]>| OsString::from_vec(field.into_owned());
        let path = PathBuf::from(owned(mount.mount_point));
        Self { mount: mount.number, device: mount.device, path, kind: owned(mount.kind) }
    }

    /// Returns whether the mount has this file-system type.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == OsStr::new(kind)
    }
}

/// What tells a mount from all others. The kernel gives the id of a mount that is gone to the next one, at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MountIdentity {
    number: u64,
    device: u64,
    /// The id that is not given again, where there is one.
    unique: Option<u64>,
}

impl MountIdentity {
    /// Returns the identity of a mount that this process has just made.
    pub(crate) fn of(listed: &ListedMount) -> Self {
        let point = MountPoint::open_listed(&listed.path).ok().filter(|point| point.mount() == listed.mount);
        let unique = point.and_then(|point| point.unique_mount());
        Self { number: listed.mount, device: listed.device, unique }
    }

    /// Unmounts the mount, at whatever path it is by now. One that is not in the tree was detached earlier, and is served until
    /// nobody uses it any more.
    ///
    /// # Errors
    /// As [`MountPoint::unmount`].
    pub(crate) fn unmount(&self, mode: UnmountMode) -> io::Result<()> {
        let is_it = |listed: &ListedMount| (listed.mount, listed.device) == (self.number, self.device);
        let Some(listed) = listed_mounts().into_iter().find(is_it) else { return Ok(()) };
        let point = MountPoint::open_listed(&listed.path)?;
        if point.mount() != self.number {
            return Err(Errno::BUSY.into());
        }
        match (self.unique, point.unique_mount()) {
            (Some(own), Some(found)) if own != found => Ok(()),
            _ => point.unmount(mode),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn open_mount_point_survives_renames() {
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
        std::fs::write(point.proc_path().join("file"), "x").unwrap();
        assert!(path("other/point/file").exists());
    }

    #[test]
    fn unmounting_a_non_mount_fails() {
        let scratch = tempfile::tempdir().unwrap();
        for mode in [UnmountMode::Clean, UnmountMode::Lazy, UnmountMode::Abort] {
            let refused = MountPoint::open(scratch.path()).unwrap().unmount(mode);
            assert!(refused.is_err(), "{mode:?}");
        }
    }
}
