//! The vnode of this base: what identifies an object of the file system, and how it is opened.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::OFlags;
use vnode::{Errno, FileKind, Handle, Result};

use super::credentials::{Acting, Thread};
use super::errno;
use super::handle::{CompactHandle, FileHandle, WireHandle};
use super::mounts::Mount;
use super::status::Status;
use super::table::fingerprint;
use super::tree::{Found, PATH_ONLY, Tree};

/// One object. It has at most one live vnode, however it was found.
///
/// Kept small, since there may be millions: 72 bytes with its reference counts.
pub(crate) struct Node {
    tree: Arc<Tree>,
    ino: u64,
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
    Place(Box<Place>),
}

/// The location of an object without a file handle.
pub(crate) struct Place {
    /// The generation by which it is named.
    generation: u64,
    /// The current creation time: a different one once the object has been copied to another layer of an overlay.
    created: AtomicU64,
    at: Mutex<Option<Location>>,
}

/// Maximum number of nested directories; more are taken for a cycle, since directories that others have moved into each
/// other one after the other may be remembered as one.
const LONGEST_WAY: usize = 1 << 16;

/// A directory and a name in it.
pub(crate) type Location = (Arc<Node>, Box<[u8]>);

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
const GIVEN: u64 = 1 << 63;
/// The creation time of an object that is no longer found by its number.
const GONE: u64 = GIVEN - 1;

impl Place {
    /// Creates the location of an object with this creation time, see [`Mount::known_generation`]; `at` is `None` if
    /// unknown.
    pub(crate) fn new(generation: Option<u64>, at: Option<Location>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let given = || GIVEN | NEXT.fetch_add(1, Ordering::Relaxed);
        let generation = generation.unwrap_or_else(given);
        Self { generation, created: AtomicU64::new(generation), at: Mutex::new(at) }
    }

    /// Returns whether a creation time is that of a copy in another layer of the overlay that the object is on; the object is
    /// known by it from now on. An object is copied up at most once, and only if it is older than the first sighting of the
    /// overlay: anything newer was created in the layer that is copied to.
    fn is_copied(&self, generation: Option<u64>, seen: u64) -> bool {
        if self.generation & GIVEN == 0 && self.generation >= seen {
            return false;
        }
        let copy = generation.unwrap_or(GIVEN | self.generation);
        let exchanged = self.created.compare_exchange(self.generation, copy, Ordering::Relaxed, Ordering::Relaxed);
        exchanged.is_ok() || exchanged == Err(copy)
    }

    fn location(&self) -> Option<Location> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Node {
    /// Creates a vnode for an object that has none.
    pub(crate) fn new(tree: &Arc<Tree>, mount: &Mount, status: &Status, identity: Identity) -> Arc<Self> {
        let tree = Arc::clone(tree);
        mount.count_vnode();
        let (mount, ino, kind) = (mount.index, mount.known_ino(status), status.kind);
        Arc::new(Self { tree, ino, identity, pinned: OnceLock::new(), mount, kind })
    }

    /// Returns the state that it shares with the other vnodes.
    pub(crate) fn tree(&self) -> &Arc<Tree> {
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
    pub(crate) fn ino_below(&self) -> u64 {
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
        let Identity::Place(place) = &self.identity else { return false };
        let own = place.created.load(Ordering::Relaxed);
        let generation = self.mount().known_generation(status);
        let is_alike = generation.map_or(own & GIVEN != 0, |generation| own == generation);
        self.has_number(status) && (is_alike || self.is_copied_as(place, status))
    }

    fn has_number(&self, status: &Status) -> bool {
        self.kind == status.kind && self.ino == self.mount().known_ino(status)
    }

    fn is_copied_as(&self, place: &Place, status: &Status) -> bool {
        self.mount().overlay_seen_at().is_some_and(|seen| place.is_copied(status.generation(), seen))
    }

    /// Returns whether it is the object with this status that was found there, as far as can be determined without a file
    /// handle. A number without a creation time, or with another one on an overlay, may have been reused for another object:
    /// at the location where the vnode was last seen it is this one. Under another name it is this one if it has several
    /// names; and so is a directory, since it may have moved and nothing is known about its former content.
    pub(crate) fn is_found_as(&self, status: &Status, found: Found<'_>) -> bool {
        let Identity::Place(place) = &self.identity else { return false };
        let may_be_elsewhere = match self.mount().known_generation(status) {
            Some(generation) if generation == place.created.load(Ordering::Relaxed) => true,
            Some(_) => status.nlink() > 1 && self.kind != FileKind::Directory,
            None => status.nlink() > 1 || self.kind == FileKind::Directory,
        };
        (may_be_elsewhere || self.is_known_at(found)) && self.has_generation(status)
    }

    fn is_known_at(&self, found: Found<'_>) -> bool {
        let (Identity::Place(place), Found::At(directory, name)) = (&self.identity, found) else { return false };
        let at = place.at.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*at, Some((parent, known)) if std::ptr::eq(&raw const **parent, directory) && **known == *name)
    }

    /// Returns whether the status has its device and inode number.
    pub(crate) fn is_object_of(&self, status: &Status) -> bool {
        let mount = self.mount();
        self.ino == mount.known_ino(status) && mount.has(status)
    }

    /// Returns whether it is the root of a FUSE mount, whose server may not reply.
    pub(crate) fn is_root_of_server(&self) -> bool {
        self.mount().is_server_root_ino(self.ino)
    }

    /// Returns the creation time that identifies it, or the number assigned instead; `None` if it has a handle.
    pub(crate) fn generation(&self) -> Option<u64> {
        match &self.identity {
            Identity::Handle(_) => None,
            Identity::Place(place) => Some(place.generation),
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
            Identity::Place(place) => WireHandle::Inode {
                mount: mount.id(),
                device: mount.device,
                ino: self.ino,
                generation: place.generation,
            },
        }
        .encode()
    }

    /// Records that it was seen by this name in this directory: where to find it again, if it has no handle.
    pub(crate) fn is_at(&self, directory: &Node, name: &[u8]) {
        let Identity::Place(place) = &self.identity else { return };
        if self.is_known_at(Found::At(directory, name)) {
            return;
        }
        // The table's lock is never taken while a location's is held, only the other way round.
        let now = (directory.reference(), name.into());
        let before = place.at.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        drop(before);
    }

    /// Returns the directory that it was last seen in, if it has no handle.
    pub(crate) fn known_parent(&self) -> Option<Arc<Node>> {
        let Identity::Place(place) = &self.identity else { return None };
        Some(place.location()?.0)
    }

    /// Returns a descriptor that names the object.
    pub(crate) fn descriptor(&self, thread: &mut Thread) -> Result<Descriptor<'_>> {
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
    fn try_descriptor(&self, thread: &mut Thread) -> Result<Descriptor<'_>> {
        if let Some(descriptor) = self.standing_descriptor() {
            return Ok(descriptor);
        }
        let opened = match self.open_object(thread, PATH_ONLY) {
            Err(Errno::EMFILE | Errno::ENFILE) => {
                self.tree.descriptors.clear();
                self.open_object(thread, PATH_ONLY)
            }
            opened => opened,
        };
        match opened {
            Ok(descriptor) if self.kind == FileKind::Directory => {
                let descriptor = Arc::new(descriptor);
                self.tree.descriptors.insert(self.key(), Arc::clone(&descriptor));
                Ok(Descriptor::Shared(descriptor))
            }
            Ok(descriptor) => Ok(Descriptor::Owned(descriptor)),
            Err(error) => Err(error),
        }
    }

    /// Returns a descriptor that is already open.
    fn standing_descriptor(&self) -> Option<Descriptor<'_>> {
        if self.is_root() {
            return Some(Descriptor::Borrowed(self.tree.root()));
        }
        if let Some(pinned) = self.pinned() {
            return Some(Descriptor::Borrowed(pinned));
        }
        match self.kind {
            FileKind::Directory => self.tree.descriptors.get(self.key()).map(Descriptor::Shared),
            _ => None,
        }
    }

    /// Opens the object with the server's credentials, for use only as the flags say: no permission is checked.
    pub(crate) fn open_object(&self, thread: &mut Thread, flags: OFlags) -> Result<OwnedFd> {
        if self.is_root() || self.pinned().is_some() {
            return match self.standing_descriptor() {
                Some(descriptor) => thread.act_as_server()?.reopen(descriptor, flags).map_err(errno),
                None => Err(Errno::ESTALE),
            };
        }
        self.open_by_identity(thread, flags)
    }

    /// Like [`Node::open_object`], but never through a descriptor that is already open.
    pub(crate) fn open_by_identity(&self, thread: &mut Thread, flags: OFlags) -> Result<OwnedFd> {
        match &self.identity {
            Identity::Handle(handle) => {
                let mount = self.mount();
                let descriptor = mount.handles().ok_or(Errno::ESTALE)?;
                thread.act_as_server()?.open_by_handle(descriptor, &handle.expand(), flags).map_err(errno)
            }
            Identity::Place(place) => self.open_at_place(thread, place, flags),
        }
    }

    /// Opens component by component from the nearest ancestor directory that is already open. Iterative, since the path may
    /// be deeper than a thread's stack allows.
    fn open_at_place(&self, thread: &mut Thread, place: &Place, flags: OFlags) -> Result<OwnedFd> {
        let (mut parent, own_name) = place.location().ok_or(Errno::ESTALE)?;
        let mut way = Vec::new();
        while parent.standing_descriptor().is_none()
            && let Identity::Place(place) = &parent.identity
        {
            let (above, name) = place.location().ok_or(Errno::ESTALE)?;
            way.push((std::mem::replace(&mut parent, above), name));
            if way.len() > LONGEST_WAY {
                return Err(Errno::ESTALE);
            }
        }
        let mut directory = parent.try_descriptor(thread)?;
        let acting = thread.act_as_server()?;
        for (node, name) in way.iter().rev() {
            let below = Arc::new(node.open_in(&acting, directory.as_fd(), name)?);
            self.tree.descriptors.insert(node.key(), Arc::clone(&below));
            directory = Descriptor::Shared(below);
        }
        let object = self.open_in(&acting, directory.as_fd(), &own_name)?;
        if flags == PATH_ONLY { Ok(object) } else { acting.reopen(object, flags).map_err(errno) }
    }

    /// Opens the object by its name in a directory, if it is there.
    fn open_in(&self, acting: &Acting<'_>, directory: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
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
    pub(crate) fn has_lost_a_name(&self) {
        if let Identity::Place(place) = &self.identity
            && self.kind == FileKind::Directory
        {
            place.created.store(GONE, Ordering::Relaxed);
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
    pub(crate) fn is_known_by_handle(&self) -> bool {
        matches!(self.identity, Identity::Handle(_))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.forget(self);
        self.tree.mounts.discount_vnode(self.mount);
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
        let Identity::Place(place) = &mut self.identity else { return None };
        Some(place.at.get_mut().unwrap_or_else(PoisonError::into_inner).take()?.0)
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
    fn vnodes_that_end_leave_nothing_behind() {
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
