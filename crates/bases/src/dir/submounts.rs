//! The mount points below the root according to the kernel's mount table, which is read again when it changes.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use procfs::mount_table::{Mount, MountTable, mounts};

use super::absolute_paths::absolute_path;
use super::calls::PATH_ONLY;
use super::credentials::AssumedCredentials;
use super::restrictions::Restrictions;

/// The mount points below a directory.
pub(crate) struct Submounts {
    mount_points: Mutex<MountPoints>,
}

/// The mount table as it was last read.
struct MountPoints {
    table: Option<MountTable>,
    points: Vec<Submount>,
    parents: HashSet<Vec<u8>>,
}

/// One mount point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Submount {
    /// The mount ID.
    pub id: u64,
    /// The number of the mounted device.
    pub device: u64,
    /// The restrictions of the mount.
    pub restrictions: Restrictions,
    /// Relative to the root.
    path: Vec<u8>,
}

impl Submounts {
    /// Creates the list of mount points below `root`; it is empty if the mount table cannot be read.
    pub(crate) fn new(root: BorrowedFd<'_>) -> Self {
        let table = MountTable::open().ok();
        let mut mount_points = MountPoints { table, points: Vec::new(), parents: HashSet::new() };
        mount_points.read(root);
        Self { mount_points: Mutex::new(mount_points) }
    }

    /// Returns whether something is mounted on an entry of this directory, so that its records describe covered objects.
    pub(crate) fn exist_in(&self, root: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> bool {
        let mount_points = self.current(root);
        !mount_points.parents.is_empty()
            && absolute_path(directory).is_ok_and(|path| mount_points.parents.contains(&path))
    }

    /// Returns whether nothing is mounted below the root.
    pub(crate) fn is_empty(&self, root: BorrowedFd<'_>) -> bool {
        self.current(root).points.is_empty()
    }

    /// Returns the mount points of a device.
    pub(crate) fn of_device(&self, root: BorrowedFd<'_>, device: u64) -> Vec<Submount> {
        self.current(root).points.iter().filter(|point| point.device == device).cloned().collect()
    }

    /// Opens the root of the mount at a point, component by component.
    pub(crate) fn open(acting: &AssumedCredentials<'_>, root: BorrowedFd<'_>, point: &Submount) -> Option<OwnedFd> {
        let mut object: Option<OwnedFd> = None;
        for component in point.path.split(|&byte| byte == b'/') {
            let directory = object.as_ref().map_or(root, AsFd::as_fd);
            object = Some(acting.open_at(directory, component, PATH_ONLY).ok()?);
        }
        object
    }

    fn current(&self, root: BorrowedFd<'_>) -> MutexGuard<'_, MountPoints> {
        let mut mount_points = self.mount_points.lock().unwrap_or_else(PoisonError::into_inner);
        if mount_points.table.as_ref().is_some_and(MountTable::has_changed) {
            mount_points.read(root);
        }
        mount_points
    }
}

impl MountPoints {
    fn read(&mut self, root: BorrowedFd<'_>) {
        self.points.clear();
        self.parents.clear();
        let Some(table) = &mut self.table else { return };
        let (Ok(mut prefix), Ok(text)) = (absolute_path(root), table.read()) else { return };
        if prefix != b"/" {
            prefix.push(b'/');
        }
        for mut point in mounts(&text).map(Submount::of) {
            let Some(path) = point.path.strip_prefix(&*prefix).filter(|path| !path.is_empty()) else { continue };
            let parent = point.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0).max(1);
            self.parents.insert(point.path[..parent].to_vec());
            point.path = path.to_vec();
            self.points.push(point);
        }
    }
}

impl Submount {
    /// Creates the point of a mount, with its full path.
    fn of(mount: Mount<'_>) -> Self {
        let restrictions = Restrictions::of_options(mount.options);
        Self { id: mount.number, device: mount.device, restrictions, path: mount.mount_point.into_owned() }
    }
}
