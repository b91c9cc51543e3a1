//! The state shared by all vnodes of one directory base: its root, mounts and caches, and how it acts for callers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::OFlags;
use vnode::{Errno, FileKind, InodeNumber, KeptAccessTimes, KeyedGuard, KeyedLocks, Name, Result};

use super::absolute_paths::{absolute_path, below};
use super::attached::AttachedDirectory;
use super::covered::CoveredDirectory;
use super::credentials::{AssumedCredentials, Credentials, ThreadCredentials};
use super::descriptors::{DescriptorCache, grow_descriptor_table};
use super::locks::LockTables;
use super::mounts::{Mount, Mounts};
use super::request_descriptors;
use super::restrictions::Restrictions;
use super::status::Status;
use super::submounts::{Submount, Submounts};
use super::table::VnodeTable;

/// A name in a directory, which is identified by the key of its vnode.
type NameKey = (usize, Box<[u8]>);

/// The state shared by all vnodes of one base, of type `N`.
pub(crate) struct Tree<N> {
    /// How it acts for callers.
    pub credentials: Credentials,
    /// The mounts.
    pub mounts: Mounts,
    /// The mount points.
    pub submounts: Submounts,
    /// The live vnodes.
    pub table: VnodeTable<N>,
    /// The cache of open directories.
    pub descriptors: DescriptorCache,
    /// Byte-range locks.
    pub locks: Arc<LockTables>,
    root: OwnedFd,
    root_ino: InodeNumber,
    /// The directory that appears in the root, if there is one.
    pub attached: Option<AttachedDirectory>,
    /// Whether nothing is synchronized.
    pub volatile: bool,
    /// The directory that the stack's own mount covers.
    pub covered: OnceLock<CoveredDirectory>,
    preserves_file_access_times: AtomicBool,
    preserves_directory_access_times: AtomicBool,
    removals: KeyedLocks<InodeNumber>,
    names: KeyedLocks<NameKey>,
}

impl<N> Tree<N> {
    /// Creates the tree below the directory `root`, an `O_PATH` descriptor.
    pub(crate) fn new(root: OwnedFd, use_handles: bool, descriptor_limit: usize) -> Result<Self> {
        let credentials = Credentials::probe();
        let mounts = Mounts::new(&credentials.thread().act_as_server()?, root.as_fd(), use_handles)?;
        let descriptors = DescriptorCache::new(descriptor_limit);
        grow_descriptor_table(&root);
        Ok(Self {
            credentials,
            mounts,
            submounts: Submounts::new(root.as_fd()),
            table: VnodeTable::new(),
            descriptors,
            locks: Arc::default(),
            root_ino: Status::of_descriptor(&root)?.ino(),
            root,
            attached: None,
            volatile: false,
            covered: OnceLock::new(),
            preserves_file_access_times: AtomicBool::new(false),
            preserves_directory_access_times: AtomicBool::new(false),
            removals: KeyedLocks::default(),
            names: KeyedLocks::default(),
        })
    }

    /// Sets the directory on which the stack will be mounted.
    pub(crate) fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        // A directory whose location cannot be determined cannot be found by one either.
        let mut thread = self.credentials.thread();
        let covered = thread.act_as_server().and_then(|acting| CoveredDirectory::new(&acting, directory));
        if let Ok(covered) = covered {
            let _ = self.covered.set(covered);
        }
    }

    /// Sets for which kinds of objects reading no longer updates access times.
    pub(crate) fn keep_access_times(&self, kept: KeptAccessTimes) {
        self.preserves_file_access_times.store(kept.files, Ordering::Relaxed);
        self.preserves_directory_access_times.store(kept.directories, Ordering::Relaxed);
    }

    /// Returns whether reading files leaves access times unchanged.
    pub(crate) fn preserves_file_access_times(&self) -> bool {
        self.preserves_file_access_times.load(Ordering::Relaxed)
    }

    /// Makes reads through a descriptor leave the access time unchanged, if set so for that kind of object, whoever has opened
    /// it: set as the server, which may do so for objects of other owners too. Where it may not, access times are those of the
    /// file system.
    pub(crate) fn preserve_access_time(
        &self,
        thread: &mut ThreadCredentials,
        kind: FileKind,
        descriptor: BorrowedFd<'_>,
    ) {
        let preserves = if kind == FileKind::Directory {
            &self.preserves_directory_access_times
        } else {
            &self.preserves_file_access_times
        };
        if preserves.load(Ordering::Relaxed)
            && let Ok(_server) = thread.act_as_server()
            && let Ok(flags) = rustix::fs::fcntl_getfl(descriptor)
            && !flags.contains(OFlags::NOATIME)
        {
            let _ = rustix::fs::fcntl_setfl(descriptor, flags | OFlags::NOATIME);
        }
    }

    /// Opens; if too many descriptors are open, closes those that are only kept for later and tries again.
    pub(crate) fn open_with_retry(&self, mut open: impl FnMut() -> Result<OwnedFd>) -> Result<OwnedFd> {
        match open() {
            Err(Errno::EMFILE | Errno::ENFILE) => {
                self.descriptors.clear();
                request_descriptors::close_all();
                open()
            }
            opened => opened,
        }
    }

    /// Returns the root directory's descriptor.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Returns whether an object is the root directory: its inode number is not reused, since it is kept open.
    pub(crate) fn is_root(&self, mount: u16, ino: InodeNumber) -> bool {
        mount == 0 && ino == self.root_ino
    }

    /// Returns the path below the root of an object, given its absolute path; empty for the root, `None` if it is elsewhere.
    pub(crate) fn path_below_root(&self, absolute: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(path) = below(absolute, &absolute_path(self.root())?) {
            return Ok(Some(path.to_vec()));
        }
        self.attached.as_ref().map_or(Ok(None), |attached| attached.path_below_root(absolute))
    }

    /// Returns whether the kernel knows a path of the object that is outside the root. It knows none for a file that was opened
    /// by handle while no name of it is in its dentry cache, and reports `/`.
    pub(crate) fn is_outside_root(&self, object: BorrowedFd<'_>) -> Result<bool> {
        let path = absolute_path(object)?;
        Ok(path != b"/" && self.path_below_root(&path)?.is_none())
    }

    /// Locks removals of names of an object with that inode number; held until the object is pinned.
    pub(crate) fn removal_lock(&self, ino: InodeNumber) -> KeyedGuard<'_, InodeNumber> {
        self.removals.write(ino)
    }

    /// Locks a name in the directory with this key while it is removed, or created and looked up: the system calls that create directories, symlinks and
    /// special files return no descriptor of the new object. Taken before any removal lock.
    pub(crate) fn name_lock(&self, directory: usize, name: Name<'_>) -> KeyedGuard<'_, NameKey> {
        self.names.write(name_key(directory, name))
    }

    /// Locks two names, each in the directory with this key.
    pub(crate) fn name_locks(
        &self,
        names: [(usize, Name<'_>); 2],
    ) -> (KeyedGuard<'_, NameKey>, Option<KeyedGuard<'_, NameKey>>) {
        let [one, other] = names.map(|(directory, name)| name_key(directory, name));
        self.names.write_both(one, other)
    }

    /// Returns the status of a name in a directory on a mount. A file system mounted there is not queried, since it may not
    /// reply: meanwhile the kernel would let nobody change the directory.
    pub(crate) fn status_at(
        &self,
        acting: &AssumedCredentials<'_>,
        mount: &Mount,
        directory: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<Status> {
        if !mount.is_answered_by_kernel() && self.submounts.is_empty(self.root()) {
            return acting.status_at(directory, name);
        }
        let cached = acting.cached_status_at(directory, name)?;
        if mount.is_answered_by_kernel() || !mount.has(&cached) {
            Ok(cached)
        } else {
            acting.status_at(directory, name)
        }
    }

    /// Returns the first mount of a device that has been seen, or one found below the root. Of several there, it is the one
    /// that forbids everything that any of them forbids: an action that one mount prevents must not be possible through
    /// another.
    pub(crate) fn mount_of_device(&self, thread: &mut ThreadCredentials, device: u64) -> Result<Arc<Mount>> {
        if let Some(mount) = self.mounts.first_of_device(device) {
            return Ok(mount);
        }
        let points = self.submounts.of_device(self.root(), device);
        let forbidden = points.iter().fold(Restrictions::NONE, |all, point| all.union(point.restrictions));
        let point = points.iter().find(|point| point.restrictions == forbidden).ok_or(Errno::ESTALE)?;
        self.open_mount_at(thread, point)
    }

    /// Returns the mount with this mount ID and device, searched below the root if it has not been seen.
    pub(crate) fn mount_of_id(&self, thread: &mut ThreadCredentials, id: u64, device: u64) -> Result<Arc<Mount>> {
        if let Some(mount) = self.mounts.find(id, device) {
            return Ok(mount);
        }
        let points = self.submounts.of_device(self.root(), device);
        self.open_mount_at(thread, points.iter().find(|point| point.id == id).ok_or(Errno::ESTALE)?)
    }

    /// Returns the mount at a mount point.
    fn open_mount_at(&self, thread: &mut ThreadCredentials, point: &Submount) -> Result<Arc<Mount>> {
        let acting = thread.act_as_server()?;
        let object = Submounts::open(&acting, self.root(), point).ok_or(Errno::ESTALE)?;
        let status = Status::cached_of_descriptor(&object)?;
        // Something else may be mounted over it.
        if status.device() != point.device || ![0, point.id].contains(&status.mount_id()) {
            return Err(Errno::ESTALE);
        }
        self.mounts.of_object(&acting, object.as_fd(), &status)
    }
}

fn name_key(directory: usize, name: Name<'_>) -> NameKey {
    (directory, name.as_bytes().into())
}
