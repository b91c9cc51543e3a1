//! The vnode of this base: what identifies an object of the file system, and how it is opened.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::OFlags;
use vnode::{Errno, FileKind, Handle, InodeNumber, Result};

use super::calls::PATH_ONLY;
use super::credentials::{AssumedCredentials, ThreadCredentials};
use super::errno;
use super::handle::{CompactHandle, FileHandle, WireHandle};
use super::mounts::Mount;
use super::request_descriptors;
use super::status::Status;
use super::table::fingerprint;
use super::tree::Tree;

/// One object. It has at most one live vnode, however it was found.
///
/// Kept small, since there may be millions: 72 bytes with its reference counts.
pub(crate) struct Node {
    tree: Arc<Tree<Node>>,
    ino: InodeNumber,
    identity: Identity,
    /// An `O_PATH` descriptor that keeps an unlinked object reachable.
    pinned: OnceLock<OwnedFd>,
    mount: u16,
    kind: FileKind,
}

/// How an object is recognised.
pub(crate) enum Identity {
    /// By the kernel's file handle.
    Handle(CompactHandle),
    /// By inode number and creation time, at the location where it was last seen; by that location alone if the file system
    /// keeps no creation time.
    Path(Box<PathIdentity>),
}

/// The identity of an object without a file handle: its creation time, and the location where it was last seen.
pub(crate) struct PathIdentity {
    /// The generation by which it is named.
    generation: u64,
    /// The current creation time: a different one once the object has been copied to another layer of an overlay.
    created: AtomicU64,
    location: Mutex<Option<Location>>,
}

/// Maximum number of nested directories; more are taken for a cycle, since directories that others have moved into each
/// other one after the other may be remembered as one.
const DIRECTORY_DEPTH_MAX: usize = 1 << 16;

/// A directory and a name in it.
pub(crate) type Location = (Arc<Node>, Box<[u8]>);

/// Location where an object was found: without handles, the only way to open it again.
#[derive(Clone, Copy)]
pub(crate) enum LookupLocation<'a> {
    /// Under this name in this directory.
    At(&'a Node, &'a [u8]),
    /// Not by name: it can be opened again only by handle.
    Unnamed,
}

/// A descriptor that names an object in system calls: `O_PATH`, unless the object is identified otherwise.
pub(crate) enum Descriptor<'a> {
    /// A descriptor that lives as long as the vnode.
    Borrowed(BorrowedFd<'a>),
    /// A descriptor from the cache.
    Shared(Arc<OwnedFd>),
    /// A descriptor for this use only.
    Owned(OwnedFd),
}

impl AsFd for Descriptor<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Borrowed(descriptor) => *descriptor,
            Self::Shared(descriptor) => descriptor.as_fd(),
            Self::Owned(descriptor) => descriptor.as_fd(),
        }
    }
}

impl Identity {
    /// Creates the identity of an object with a file handle.
    pub(crate) fn of(handle: &FileHandle) -> Self {
        Self::Handle(CompactHandle::from(handle))
    }
}

/// Set in generations that are assigned here because the file system keeps no creation time.
const ASSIGNED_GENERATION: u64 = 1 << 63;
/// The creation time of an object that is no longer found by its number.
const GONE_GENERATION: u64 = ASSIGNED_GENERATION - 1;

impl PathIdentity {
    /// Creates the identity of an object with this creation time, see [`Mount::identity_generation`]; `location` is
    /// `None` if unknown.
    pub(crate) fn new(generation: Option<u64>, location: Option<Location>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let assigned = || ASSIGNED_GENERATION | NEXT.fetch_add(1, Ordering::Relaxed);
        let generation = generation.unwrap_or_else(assigned);
        Self { generation, created: AtomicU64::new(generation), location: Mutex::new(location) }
    }

    /// Returns whether a creation time is that of a copy in another layer of the overlay that the object is on; the object is
    /// known by it from now on. An object is copied up at most once, and only if it is older than the first sighting of the
    /// overlay: anything newer was created in the layer that is copied to.
    fn is_copied_up(&self, generation: Option<u64>, seen: u64) -> bool {
        if self.generation & ASSIGNED_GENERATION == 0 && self.generation >= seen {
            return false;
        }
        let copy = generation.unwrap_or(ASSIGNED_GENERATION | self.generation);
        let exchanged = self.created.compare_exchange(self.generation, copy, Ordering::Relaxed, Ordering::Relaxed);
        exchanged.is_ok() || exchanged == Err(copy)
    }

    fn location(&self) -> Option<Location> {
        self.location.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Node {
    /// Creates a vnode for an object that has none.
    pub(crate) fn new(tree: &Arc<Tree<Node>>, mount: &Mount, status: &Status, identity: Identity) -> Arc<Self> {
        let tree = Arc::clone(tree);
        mount.count_vnode();
        let (mount, ino, kind) = (mount.index, mount.identity_ino(status), status.kind);
        Arc::new(Self { tree, ino, identity, pinned: OnceLock::new(), mount, kind })
    }

    /// Returns the state that it shares with the other vnodes.
    pub(crate) fn tree(&self) -> &Arc<Tree<Node>> {
        &self.tree
    }

    /// Returns the mount that it is on.
    pub(crate) fn mount(&self) -> Arc<Mount> {
        self.tree.mounts.get(self.mount)
    }

    /// Returns the index of that mount in the list.
    pub(crate) fn mount_index(&self) -> u16 {
        self.mount
    }

    /// Returns its inode number on that file system.
    pub(crate) fn lower_ino(&self) -> InodeNumber {
        self.ino
    }

    /// Returns the kind.
    pub(crate) fn file_kind(&self) -> FileKind {
        self.kind
    }

    /// Returns another reference to it. Looked up rather than stored, which would enlarge every vnode.
    pub(crate) fn reference(&self) -> Arc<Node> {
        let found = self.tree.table.find(fingerprint(self.mount, self.ino), |node| std::ptr::eq(node, self));
        found.expect("a vnode is in the table while it is live")
    }

    /// Returns the key of this vnode in the descriptor cache and the lock table.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns whether it is the root directory.
    pub(crate) fn is_root(&self) -> bool {
        self.tree.is_root(self.mount, self.ino)
    }

    /// Returns whether this file handle identifies it.
    pub(crate) fn has_handle(&self, handle: &FileHandle) -> bool {
        matches!(&self.identity, Identity::Handle(own) if own.is(handle))
    }

    /// Returns whether it is the object with this status if it is where it was last seen, as far as can be determined
    /// without a file handle.
    pub(crate) fn has_generation(&self, status: &Status) -> bool {
        let Identity::Path(path) = &self.identity else { return false };
        let own = path.created.load(Ordering::Relaxed);
        let generation = self.mount().identity_generation(status);
        let is_alike = generation.map_or(own & ASSIGNED_GENERATION != 0, |generation| own == generation);
        self.has_ino(status) && (is_alike || self.matches_copied_up(path, status))
    }

    fn has_ino(&self, status: &Status) -> bool {
        self.kind == status.kind && self.ino == self.mount().identity_ino(status)
    }

    fn matches_copied_up(&self, path: &PathIdentity, status: &Status) -> bool {
        self.mount().overlay_seen_at().is_some_and(|seen| path.is_copied_up(status.generation(), seen))
    }

    /// Returns whether it is the object with this status that was found there, as far as can be determined without a file
    /// handle. A number without a creation time, or with another one on an overlay, may have been reused for another object:
    /// at the location where the vnode was last seen it is this one. Under another name it is this one if it has several
    /// names; and so is a directory, since it may have moved and nothing is known about its former content.
    pub(crate) fn matches_at(&self, status: &Status, lookup: LookupLocation<'_>) -> bool {
        let Identity::Path(path) = &self.identity else { return false };
        let may_be_elsewhere = match self.mount().identity_generation(status) {
            Some(generation) if generation == path.created.load(Ordering::Relaxed) => true,
            Some(_) => status.nlink() > 1 && self.kind != FileKind::Directory,
            None => status.nlink() > 1 || self.kind == FileKind::Directory,
        };
        (may_be_elsewhere || self.is_located_at(lookup)) && self.has_generation(status)
    }

    fn is_located_at(&self, lookup: LookupLocation<'_>) -> bool {
        let (Identity::Path(path), LookupLocation::At(directory, name)) = (&self.identity, lookup) else {
            return false;
        };
        let at = path.location.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*at, Some((parent, known)) if std::ptr::eq(&raw const **parent, directory) && **known == *name)
    }

    /// Returns whether the status has its device and inode number.
    pub(crate) fn is_object_of(&self, status: &Status) -> bool {
        let mount = self.mount();
        self.ino == mount.identity_ino(status) && mount.has(status)
    }

    /// Returns whether it is the root of a FUSE mount, whose server may not reply.
    pub(crate) fn is_fuse_root(&self) -> bool {
        self.mount().is_fuse_root_ino(self.ino)
    }

    /// Returns the creation time that identifies it, or the number assigned instead; `None` if it has a handle.
    pub(crate) fn generation(&self) -> Option<u64> {
        match &self.identity {
            Identity::Handle(_) => None,
            Identity::Path(path) => Some(path.generation),
        }
    }

    /// Returns its vnode handle.
    pub(crate) fn wire_handle(&self) -> Handle {
        let mount = self.mount();
        match &self.identity {
            Identity::Handle(handle) if self.mount == 0 => WireHandle::Root(handle.expand()),
            Identity::Handle(handle) if mount.is_first() => WireHandle::Device(mount.device, handle.expand()),
            Identity::Handle(handle) => {
                WireHandle::Mount { device: mount.device, mount: mount.id(), handle: handle.expand() }
            }
            Identity::Path(path) => WireHandle::Inode {
                mount: mount.id(),
                device: mount.device,
                ino: self.ino,
                generation: path.generation,
            },
        }
        .encode()
    }

    /// Records that it was seen by this name in this directory: where to find it again, if it has no handle.
    pub(crate) fn set_location(&self, directory: &Node, name: &[u8]) {
        let Identity::Path(path) = &self.identity else { return };
        if self.is_located_at(LookupLocation::At(directory, name)) {
            return;
        }
        // The table's lock is never taken while a location's is held, only the other way round.
        let now = (directory.reference(), name.into());
        let before = path.location.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        drop(before);
    }

    /// Returns the directory that it was last seen in, if it has no handle.
    pub(crate) fn known_parent(&self) -> Option<Arc<Node>> {
        let Identity::Path(path) = &self.identity else { return None };
        Some(path.location()?.0)
    }

    /// Returns a descriptor that names the object.
    pub(crate) fn descriptor(&self, thread: &mut ThreadCredentials) -> Result<Descriptor<'_>> {
        match self.try_descriptor(thread) {
            Err(Errno::ESTALE) => {
                // Its last name may be about to be removed, in which case it is pinned as soon as the lock is released.
                drop(self.tree.removal_lock(self.ino));
                self.pinned().map(Descriptor::Borrowed).ok_or(Errno::ESTALE)
            }
            descriptor => descriptor,
        }
    }

    /// Like [`Node::descriptor`], without waiting for a removal: for callers that may hold a removal lock.
    fn try_descriptor(&self, thread: &mut ThreadCredentials) -> Result<Descriptor<'_>> {
        if let Some(descriptor) = self.cached_descriptor() {
            return Ok(descriptor);
        }
        let opened = self.tree.open_with_retry(|| self.open_object(thread, PATH_ONLY))?;
        match &self.identity {
            _ if self.kind == FileKind::Directory => {
                let descriptor = Arc::new(opened);
                self.tree.descriptors.insert(self.key(), Arc::clone(&descriptor));
                Ok(Descriptor::Shared(descriptor))
            }
            Identity::Handle(handle) => Ok(match request_descriptors::keep(&self.mount(), handle, opened) {
                Ok(kept) => Descriptor::Shared(kept),
                Err(opened) => Descriptor::Owned(opened),
            }),
            Identity::Path(_) => Ok(Descriptor::Owned(opened)),
        }
    }

    /// Returns a descriptor that is already open.
    fn cached_descriptor(&self) -> Option<Descriptor<'_>> {
        if self.is_root() {
            return Some(Descriptor::Borrowed(self.tree.root()));
        }
        if let Some(pinned) = self.pinned() {
            return Some(Descriptor::Borrowed(pinned));
        }
        match &self.identity {
            _ if self.kind == FileKind::Directory => self.tree.descriptors.get(self.key()).map(Descriptor::Shared),
            Identity::Handle(handle) => request_descriptors::find(&self.mount(), handle).map(Descriptor::Shared),
            Identity::Path(_) => None,
        }
    }

    /// Opens the object with the server's credentials, for use only as the flags say: no permission is checked.
    pub(crate) fn open_object(&self, thread: &mut ThreadCredentials, flags: OFlags) -> Result<OwnedFd> {
        if self.is_root() || self.pinned().is_some() {
            return match self.cached_descriptor() {
                Some(descriptor) => thread.act_as_server()?.reopen(descriptor, flags).map_err(errno),
                None => Err(Errno::ESTALE),
            };
        }
        self.open_by_identity(thread, flags)
    }

    /// Like [`Node::open_object`], but never through a descriptor that is already open.
    pub(crate) fn open_by_identity(&self, thread: &mut ThreadCredentials, flags: OFlags) -> Result<OwnedFd> {
        match &self.identity {
            Identity::Handle(handle) => {
                let mount = self.mount();
                let descriptor = mount.handles().ok_or(Errno::ESTALE)?;
                thread.act_as_server()?.open_by_handle(descriptor, &handle.expand(), flags).map_err(errno)
            }
            Identity::Path(path) => self.open_at_location(thread, path, flags),
        }
    }

    /// Opens component by component from the nearest ancestor directory that is already open. Iterative, since the path may
    /// be deeper than a thread's stack allows.
    fn open_at_location(&self, thread: &mut ThreadCredentials, path: &PathIdentity, flags: OFlags) -> Result<OwnedFd> {
        let (mut parent, own_name) = path.location().ok_or(Errno::ESTALE)?;
        let mut ancestors = Vec::new();
        while parent.cached_descriptor().is_none()
            && let Identity::Path(path) = &parent.identity
        {
            let (above, name) = path.location().ok_or(Errno::ESTALE)?;
            ancestors.push((std::mem::replace(&mut parent, above), name));
            if ancestors.len() > DIRECTORY_DEPTH_MAX {
                return Err(Errno::ESTALE);
            }
        }
        let mut directory = parent.try_descriptor(thread)?;
        let acting = thread.act_as_server()?;
        for (node, name) in ancestors.iter().rev() {
            let below = Arc::new(node.open_in_directory(&acting, directory.as_fd(), name)?);
            self.tree.descriptors.insert(node.key(), Arc::clone(&below));
            directory = Descriptor::Shared(below);
        }
        let object = self.open_in_directory(&acting, directory.as_fd(), &own_name)?;
        if flags == PATH_ONLY { Ok(object) } else { acting.reopen(object, flags).map_err(errno) }
    }

    /// Opens the object by its name in a directory, if it is there.
    fn open_in_directory(
        &self,
        acting: &AssumedCredentials<'_>,
        directory: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<OwnedFd> {
        let object = acting.open_at(directory, name, PATH_ONLY).map_err(|error| match error {
            rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => Errno::ESTALE,
            error => errno(error),
        })?;
        let status = self.mount().status_of(object.as_fd())?;
        if !self.is_object_of(&status) || !self.has_generation(&status) {
            return Err(Errno::ESTALE);
        }
        Ok(object)
    }

    /// Records that one of its names was removed, for a directory the only one: any object with its number from now on is
    /// another.
    pub(crate) fn record_lost_name(&self) {
        if let Identity::Path(path) = &self.identity
            && self.kind == FileKind::Directory
        {
            path.created.store(GONE_GENERATION, Ordering::Relaxed);
        }
    }

    /// Keeps the object open from now on, since it has no name any more.
    pub(crate) fn pin(&self, descriptor: OwnedFd) {
        // An existing one serves as well.
        let _ = self.pinned.set(descriptor);
    }

    /// Returns the descriptor that keeps an unlinked object open.
    pub(crate) fn pinned(&self) -> Option<BorrowedFd<'_>> {
        self.pinned.get().map(AsFd::as_fd)
    }

    /// Returns whether the object is identified by its handle.
    pub(crate) fn is_identified_by_handle(&self) -> bool {
        matches!(self.identity, Identity::Handle(_))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.forget(self);
        self.tree.mounts.uncount_vnode(self.mount);
        // Iterative: each may hold the last reference to its parent, and the path up may be deeper than the stack allows.
        let mut above = self.take_parent();
        while let Some(node) = above {
            let address = Arc::as_ptr(&node);
            let Some(mut node) = Arc::into_inner(node) else { break };
            // Done here, since the vnode has moved: it is known by its former address.
            node.forget(address);
            above = node.take_parent();
        }
    }
}

impl Node {
    /// Removes the vnode from the tables, which know it by `address`. That may become another vnode's as soon as the table
    /// of vnodes has forgotten it, so that comes last.
    fn forget(&self, address: *const Node) {
        if self.kind == FileKind::Directory {
            self.tree.descriptors.remove(address as usize);
        }
        self.tree.table.remove(fingerprint(self.mount, self.ino), address);
    }

    /// Takes the directory that it was last seen in.
    fn take_parent(&mut self) -> Option<Arc<Node>> {
        let Identity::Path(path) = &mut self.identity else { return None };
        Some(path.location.get_mut().unwrap_or_else(PoisonError::into_inner).take()?.0)
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} {} on {}", self.kind, self.ino, self.mount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_vnodes_leave_the_tables() {
        use crate::dir::{DirectoryFileSystem, Options};
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("a/b/c")).unwrap();
        for file_handles in [true, false] {
            let options = Options { file_handles, ..Options::default() };
            let file_system = DirectoryFileSystem::open(directory.path(), options).unwrap();
            for _ in 0..10 {
                let mut node: vnode::VnodeRef = file_system.root.clone();
                for name in [b"a", b"b", b"c"] {
                    node = node.lookup(&vnode::Caller::server(), vnode::Name::new(name).unwrap()).unwrap().vnode;
                }
            }
            assert_eq!(file_system.tree.table.len(), 1, "only the root is left");
        }
    }

    #[test]
    fn a_vnode_stays_small() {
        assert!(size_of::<Node>() + 2 * size_of::<usize>() <= 72, "{}", size_of::<Node>());
    }
}
