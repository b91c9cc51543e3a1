//! The state shared by all vnodes of one directory base: its root, mounts and caches, and how it acts for callers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::OFlags;
use vnode::{Attributes, Caller, Errno, FileKind, KeptAccessTimes, KeyedGuard, KeyedLocks, Name, Result};

use super::absolute_paths::is_outside_root;
use super::calls::PATH_ONLY;
use super::covered::CoveredDirectory;
use super::credentials::{AssumedCredentials, Credentials, ThreadCredentials};
use super::descriptors::{DescriptorCache, grow_descriptor_table};
use super::handle::{FileHandle, WireHandle};
use super::locks::LockTables;
use super::mounts::{Mount, Mounts};
use super::node::{Identity, LookupLocation, Node, PathIdentity};
use super::restrictions::{self, Restrictions};
use super::shares::may_retain;
use super::status::Status;
use super::submounts::{Submount, Submounts};
use super::table::{VnodeTable, fingerprint};
use super::{errno, system};

/// A name in a directory, which is identified by [`Node::key`].
type NameKey = (usize, Box<[u8]>);

/// The state shared by all vnodes of one base.
pub(crate) struct Tree {
    /// How it acts for callers.
    pub credentials: Credentials,
    /// The mounts.
    pub mounts: Mounts,
    /// The mount points.
    pub submounts: Submounts,
    /// The live vnodes.
    pub table: VnodeTable,
    /// The cache of open directories.
    pub descriptors: DescriptorCache,
    /// Byte-range locks.
    pub locks: LockTables,
    root: OwnedFd,
    root_ino: u64,
    covered: OnceLock<CoveredDirectory>,
    preserves_file_access_times: AtomicBool,
    preserves_directory_access_times: AtomicBool,
    removals: KeyedLocks<u64>,
    names: KeyedLocks<NameKey>,
}

impl Tree {
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
            locks: LockTables::default(),
            root_ino: Status::of_descriptor(&root)?.ino(),
            root,
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
        {
            let _ = rustix::fs::fcntl_setfl(descriptor, flags | OFlags::NOATIME);
        }
    }

    /// Returns the root directory's descriptor.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Returns whether an object is the root directory: its inode number is not reused, since it is kept open.
    pub(crate) fn is_root(&self, mount: u16, ino: u64) -> bool {
        mount == 0 && ino == self.root_ino
    }

    /// Locks removals of names of an object with that inode number; held until the object is pinned.
    pub(crate) fn removal_lock(&self, ino: u64) -> KeyedGuard<'_, u64> {
        self.removals.write(ino)
    }

    /// Locks a name while it is removed, or created and looked up: the system calls that create directories, symlinks and
    /// special files return no descriptor of the new object. Taken before any removal lock.
    pub(crate) fn name_lock(&self, directory: &Node, name: Name<'_>) -> KeyedGuard<'_, NameKey> {
        self.names.write(name_key(directory, name))
    }

    /// Locks two names.
    pub(crate) fn name_locks(
        &self,
        names: [(&Node, Name<'_>); 2],
    ) -> (KeyedGuard<'_, NameKey>, Option<KeyedGuard<'_, NameKey>>) {
        let [one, other] = names.map(|(directory, name)| name_key(directory, name));
        self.names.write_both(one, other)
    }

    /// Returns the vnode and attributes of a name, as the caller finds it.
    ///
    /// Handle and attributes come from two calls by name, which are verified to concern the same object: an object that has
    /// the handle's inode number and is older than a few seconds existed at both calls and so is the handle's; for a younger
    /// one, the handle is queried again.
    pub(crate) fn entry(
        self: &Arc<Self>,
        thread: &mut ThreadCredentials,
        caller: &Caller,
        directory: &Node,
        descriptor: BorrowedFd<'_>,
        name: Name<'_>,
    ) -> Result<(Arc<Node>, Attributes)> {
        let mount = self.mounts.get(directory.mount_index());
        let location = LookupLocation::At(directory, name.as_bytes());
        let acting = thread.act_for(caller)?;
        if let Some(object) = self.covered.get().and_then(|covered| covered.at(directory, name)) {
            // Checks whether the caller may search the directory.
            acting.status_at(descriptor, ".")?;
            let (node, attributes) = self.entry_of(thread, object, location)?;
            if !node.is_identified_by_handle() {
                node.pin(object.try_clone_to_owned()?);
            }
            return Ok((node, attributes));
        }
        if mount.has_transient_inos() {
            // Found by its descriptor, below.
        } else if mount.handles().is_none() {
            let status = self.status_at(&acting, &mount, descriptor, name.as_bytes())?;
            // One file system may report several devices, such as overlayfs.
            let is_known = |mount: &Arc<Mount>| mount.handles().is_none() && mount.is_status_sufficient(&status);
            if let Some(mount) = self.mounts.of(&status).filter(is_known) {
                return Ok(self.vnode(&mount, &status, None, location));
            }
        } else if let Some(handle) = handle_of_name(&acting, descriptor, name)? {
            let status = self.status_at(&acting, &mount, descriptor, name.as_bytes())?;
            let certain = mount.has(&status)
                && mount.handle_has_ino(&handle, status.ino())
                && (is_certainly_old(&status) || handle_of_name(&acting, descriptor, name)? == Some(handle));
            if certain {
                return Ok(self.vnode(&mount, &status, Some(&handle), location));
            }
        }
        let object = acting.open_at(descriptor, name.as_bytes(), PATH_ONLY).map_err(errno)?;
        self.entry_of(thread, object.as_fd(), location)
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

    /// Returns the vnode and attributes of an open object. The root of a FUSE mount is not queried.
    pub(crate) fn entry_of(
        self: &Arc<Self>,
        thread: &mut ThreadCredentials,
        object: BorrowedFd<'_>,
        location: LookupLocation<'_>,
    ) -> Result<(Arc<Node>, Attributes)> {
        let cached = Status::cached_of_descriptor(object)?;
        let mount = match self.mounts.of(&cached) {
            Some(mount) => mount,
            None => self.mounts.of_object(&thread.act_as_server()?, object, &cached)?,
        };
        let status = if mount.is_status_sufficient(&cached) { cached } else { Status::of_descriptor(object)? };
        let handle = match mount.handles() {
            Some(_) => supported_handle(system::name_to_handle_at(object, b"", system::EMPTY_PATH))?,
            None => None,
        };
        let (node, attributes) = self.vnode(&mount, &status, handle.as_ref(), location);
        if mount.has_transient_inos() {
            self.pin_ino(thread, &node, object);
        }
        Ok((node, attributes))
    }

    /// Keeps an object open as long as it has a vnode, which would become a different one if its inode number changed. When
    /// descriptors are scarce, that may happen.
    fn pin_ino(&self, thread: &mut ThreadCredentials, node: &Node, object: BorrowedFd<'_>) {
        if node.pinned().is_none()
            && !node.is_root()
            && let Ok(acting) = thread.act_as_server()
            && let Ok(descriptor) = acting.reopen(object, PATH_ONLY)
            && may_retain(&descriptor)
        {
            node.pin(descriptor);
        }
    }

    /// Returns the only vnode of an object.
    fn vnode(
        self: &Arc<Self>,
        mount: &Mount,
        status: &Status,
        handle: Option<&FileHandle>,
        location: LookupLocation<'_>,
    ) -> (Arc<Node>, Attributes) {
        let attributes = restrictions::attributes(mount, status);
        let fingerprint = fingerprint(mount.index, mount.identity_ino(status));
        let generation = mount.identity_generation(status);
        let new = |identity| Node::new(self, mount, status, identity);
        let node = match handle {
            Some(handle) => {
                self.table.find_or_insert(fingerprint, |node| node.has_handle(handle), || new(Identity::of(handle)))
            }
            None => {
                // Identifies the vnode immediately, for callers that find it at the same time.
                let at = match location {
                    LookupLocation::At(directory, name) if generation.is_none() => {
                        Some((directory.reference(), name.into()))
                    }
                    _ => None,
                };
                let identity = || Identity::Path(Box::new(PathIdentity::new(generation, at)));
                self.table.find_or_insert(fingerprint, |node| node.matches_at(status, location), || new(identity()))
            }
        };
        if let LookupLocation::At(directory, name) = location {
            node.set_location(directory, name);
        }
        (node, attributes)
    }

    /// Returns the first mount of a device that has been seen, or one found below the root. Of several there, it is the one
    /// that forbids everything that any of them forbids: an action that one mount prevents must not be possible through
    /// another.
    fn mount_of_device(&self, thread: &mut ThreadCredentials, device: u64) -> Result<Arc<Mount>> {
        if let Some(mount) = self.mounts.first_of_device(device) {
            return Ok(mount);
        }
        let points = self.submounts.of_device(self.root(), device);
        let forbidden = points.iter().fold(Restrictions::NONE, |all, point| all.union(point.restrictions));
        let point = points.iter().find(|point| point.restrictions == forbidden).ok_or(Errno::ESTALE)?;
        self.open_mount_at(thread, point)
    }

    /// Returns the mount with this mount ID and device, searched below the root if it has not been seen.
    fn mount_of_id(&self, thread: &mut ThreadCredentials, id: u64, device: u64) -> Result<Arc<Mount>> {
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

    /// Returns the vnode of a handle.
    pub(crate) fn resolve(self: &Arc<Self>, wire: &WireHandle) -> Result<Arc<Node>> {
        let thread = &mut self.credentials.thread();
        let (mount, handle) = match wire {
            WireHandle::Root(handle) => (Arc::clone(self.mounts.root()), handle),
            WireHandle::Device(device, handle) => (self.mount_of_device(thread, *device)?, handle),
            WireHandle::Mount { device, mount, handle } => (self.mount_of_id(thread, *mount, *device)?, handle),
            WireHandle::Inode { mount, device, ino, generation } => {
                let mount = self.mounts.find(*mount, *device).ok_or(Errno::ESTALE)?;
                let matches = |node: &Node| node.generation() == Some(*generation);
                return self.table.find(fingerprint(mount.index, *ino), matches).ok_or(Errno::ESTALE);
            }
        };
        let descriptor = mount.handles().ok_or(Errno::ESTALE)?;
        let object = thread.act_as_server()?.open_by_handle(descriptor, handle, PATH_ONLY);
        let object = object.map_err(|_| Errno::ESTALE)?;
        if is_outside_root(self.root(), object.as_fd())? {
            return Err(Errno::ESTALE);
        }
        let (node, _) = self.entry_of(thread, object.as_fd(), LookupLocation::Unnamed)?;
        if node.has_handle(handle) { Ok(node) } else { Err(Errno::ESTALE) }
    }
}

fn name_key(directory: &Node, name: Name<'_>) -> NameKey {
    (directory.key(), name.as_bytes().into())
}

/// Returns the handle of a name.
fn handle_of_name(
    acting: &AssumedCredentials<'_>,
    directory: BorrowedFd<'_>,
    name: Name<'_>,
) -> Result<Option<FileHandle>> {
    supported_handle(acting.handle_at(directory, name.as_bytes()))
}

/// Returns a handle, or `None` if the object has no usable one, such as one on another file system.
fn supported_handle(handle: system::SystemResult<FileHandle>) -> Result<Option<FileHandle>> {
    use rustix::io::Errno as SystemError;
    match handle {
        Ok(handle) => Ok(Some(handle)),
        Err(SystemError::OPNOTSUPP | SystemError::OVERFLOW) => Ok(None),
        Err(error) => Err(errno(error)),
    }
}

/// Returns whether the object is known to be older than the time between any two consecutive calls.
fn is_certainly_old(status: &Status) -> bool {
    const MARGIN_SECONDS: i64 = 2;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    status.created().is_some_and(|created| created.seconds < now.tv_sec - MARGIN_SECONDS)
}
