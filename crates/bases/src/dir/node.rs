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

/// One object. There is at most one live vnode for it, however it was found.
///
/// Kept small, for there may be millions: 72 bytes with its counts.
pub struct Node {
    tree: Arc<Tree>,
    ino: u64,
    identity: Identity,
    /// An `O_PATH` descriptor that keeps an object without a name reachable.
    pinned: OnceLock<OwnedFd>,
    mount: u16,
    kind: FileKind,
}

/// How an object is known again.
pub enum Identity {
    /// By the kernel's file handle.
    Handle(CompactHandle),
    /// By inode number and time of creation, at the place where it was last seen. Where no such time is kept, by that place.
    Place(Box<Place>),
}

/// Where an object without a file handle is.
pub struct Place {
    /// By which it is named.
    generation: u64,
    /// The time of creation that it has: another one, once it has been copied to another layer of an overlay.
    created: AtomicU64,
    at: Mutex<Option<Location>>,
}

/// More directories above each other than this are taken for a ring: directories that others have moved into each other
/// one after the other may be remembered so.
const LONGEST_WAY: usize = 1 << 16;

/// A directory and a name in it.
pub type Location = (Arc<Node>, Box<[u8]>);

/// A descriptor to name an object by in system calls: `O_PATH`, unless the object is known otherwise.
pub enum Descriptor<'a> {
    /// One that lives as long as the vnode.
    Borrowed(BorrowedFd<'a>),
    /// One of the cache.
    Shared(Arc<OwnedFd>),
    /// One for this use only.
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
    /// By a file handle.
    pub fn of(handle: &FileHandle) -> Self {
        Self::Handle(CompactHandle::from(handle))
    }
}

/// What generations have that are given here, since the file system keeps no time of creation.
const GIVEN: u64 = 1 << 63;
/// The time of creation of what is not found by its number any more.
const GONE: u64 = GIVEN - 1;

impl Place {
    /// Of an object with this time of creation, as [`Mount::known_generation`], at a place if that is known.
    pub fn new(generation: Option<u64>, at: Option<Location>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let given = || GIVEN | NEXT.fetch_add(1, Ordering::Relaxed);
        let generation = generation.unwrap_or_else(given);
        Self { generation, created: AtomicU64::new(generation), at: Mutex::new(at) }
    }

    /// Whether a time of creation is that of a copy in another layer of the overlay that the object is on, by which it is known
    /// from now on. An object is copied once at most, and only if it is older than what has been seen of the overlay: all that is
    /// newer has been made in the layer that copies go to.
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
    /// A vnode for an object that has none.
    pub fn new(tree: &Arc<Tree>, mount: &Mount, status: &Status, identity: Identity) -> Arc<Self> {
        let tree = Arc::clone(tree);
        mount.count_vnode();
        let (mount, ino, kind) = (mount.index, mount.known_ino(status), status.kind);
        Arc::new(Self { tree, ino, identity, pinned: OnceLock::new(), mount, kind })
    }

    /// What it shares with the other vnodes.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// The file system that it is on.
    pub fn mount(&self) -> Arc<Mount> {
        self.tree.mounts.get(self.mount)
    }

    /// The place of that file system in the list.
    pub fn mount_index(&self) -> u16 {
        self.mount
    }

    /// Its inode number on that file system.
    pub fn ino_below(&self) -> u64 {
        self.ino
    }

    /// The kind.
    pub fn file_kind(&self) -> FileKind {
        self.kind
    }

    /// Another reference to it. Looked up rather than kept, which would cost every vnode room.
    pub fn reference(&self) -> Arc<Node> {
        let found = self.tree.table.find(fingerprint(self.mount, self.ino), |node| std::ptr::eq(node, self));
        found.expect("a vnode is in the table while it is live")
    }

    /// What the cache of descriptors and the lock table know it by.
    pub fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether it is the root directory.
    pub fn is_root(&self) -> bool {
        self.tree.is_root(self.mount, self.ino)
    }

    /// Whether it is known by this file handle.
    pub fn has_handle(&self, handle: &FileHandle) -> bool {
        matches!(&self.identity, Identity::Handle(own) if own.is(handle))
    }

    /// Whether it is the object of this state, as far as can be told without a file handle, if it is where it was last seen.
    pub fn has_generation(&self, status: &Status) -> bool {
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

    /// Whether it is the object of this state that was found there, as far as can be told without a file handle. A number
    /// without a time of creation, or with another one on an overlay, may have been given to another object: it is this one where
    /// it was last seen. By another name it is if it has several; and a directory is, for it may have moved, and nothing is known of
    /// what was in it.
    pub fn is_found_as(&self, status: &Status, found: Found<'_>) -> bool {
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

    /// Whether the state has its device and inode number.
    pub fn is_object_of(&self, status: &Status) -> bool {
        let mount = self.mount();
        self.ino == mount.known_ino(status) && mount.has(status)
    }

    /// Whether it is the root of what a process serves that may not answer.
    pub fn is_root_of_server(&self) -> bool {
        self.mount().is_server_root_ino(self.ino)
    }

    /// The time of creation that it is known by, if not by a handle, or what stands for that.
    pub fn generation(&self) -> Option<u64> {
        match &self.identity {
            Identity::Handle(_) => None,
            Identity::Place(place) => Some(place.generation),
        }
    }

    /// Its vnode handle.
    pub fn wire_handle(&self) -> Handle {
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

    /// It was seen by this name in this directory: where to find it again, if it has no handle.
    pub fn is_at(&self, directory: &Node, name: &[u8]) {
        let Identity::Place(place) = &self.identity else { return };
        if self.is_known_at(Found::At(directory, name)) {
            return;
        }
        // The table's lock is never taken under a place's, but the other way round.
        let now = (directory.reference(), name.into());
        let before = place.at.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        drop(before);
    }

    /// The directory that it was last seen in, if it has no handle.
    pub fn known_parent(&self) -> Option<Arc<Node>> {
        let Identity::Place(place) = &self.identity else { return None };
        Some(place.location()?.0)
    }

    /// A descriptor that names the object.
    pub fn descriptor(&self, thread: &mut Thread) -> Result<Descriptor<'_>> {
        match self.try_descriptor(thread) {
            Err(Errno::ESTALE) => {
                // Its last name may just be going, in which case it is kept open as soon as the lock is free.
                drop(self.tree.removal_lock(self.ino));
                self.pinned().map(Descriptor::Borrowed).ok_or(Errno::ESTALE)
            }
            descriptor => descriptor,
        }
    }

    /// As [`Node::descriptor`], without waiting for a removal: for those who may hold a removal lock.
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

    /// A descriptor that is open already.
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

    /// Opens the object with the server's credentials, not to be used for anything but what the flags say: no
    /// permission is checked.
    pub fn open_object(&self, thread: &mut Thread, flags: OFlags) -> Result<OwnedFd> {
        if self.is_root() || self.pinned().is_some() {
            return match self.standing_descriptor() {
                Some(descriptor) => thread.act_as_server()?.reopen(descriptor, flags).map_err(errno),
                None => Err(Errno::ESTALE),
            };
        }
        self.open_by_identity(thread, flags)
    }

    /// As [`Node::open_object`], but never by way of a descriptor that is open already.
    pub fn open_by_identity(&self, thread: &mut Thread, flags: OFlags) -> Result<OwnedFd> {
        match &self.identity {
            Identity::Handle(handle) => {
                let mount = self.mount();
                let descriptor = mount.handles().ok_or(Errno::ESTALE)?;
                thread.act_as_server()?.open_by_handle(descriptor, &handle.expand(), flags).map_err(errno)
            }
            Identity::Place(place) => self.open_at_place(thread, place, flags),
        }
    }

    /// Opens component by component from the nearest directory above that is open already. Not by recursion: the way may
    /// be longer than a thread's stack.
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

    /// A name of it was taken away, which is the only one of a directory: whatever has its number from now on is another.
    pub fn has_lost_a_name(&self) {
        if let Identity::Place(place) = &self.identity
            && self.kind == FileKind::Directory
        {
            place.created.store(GONE, Ordering::Relaxed);
        }
    }

    /// Keeps the object open from now on, for it has no name any more.
    pub fn pin(&self, descriptor: OwnedFd) {
        // One that is there already does as well.
        let _ = self.pinned.set(descriptor);
    }

    /// The descriptor that keeps an object without a name open.
    pub fn pinned(&self) -> Option<BorrowedFd<'_>> {
        self.pinned.get().map(AsFd::as_fd)
    }

    /// Whether the object is known by its handle.
    pub fn is_known_by_handle(&self) -> bool {
        matches!(self.identity, Identity::Handle(_))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.forget(self);
        self.tree.mounts.discount_vnode(self.mount);
        // One after the other: each might be the last to hold the one above, and the way up longer than the stack.
        let mut above = self.take_parent();
        while let Some(node) = above {
            let address = Arc::as_ptr(&node);
            let Some(mut node) = Arc::into_inner(node) else { break };
            // Here, since it has moved: it is known by the address that it had.
            node.forget(address);
            above = node.take_parent();
        }
    }
}

impl Node {
    /// Takes the vnode out of the tables, where `address` stands for it. The address may be another vnode's as soon as
    /// the table of vnodes has forgotten it, so that comes last.
    fn forget(&self, address: *const Node) {
        if self.kind == FileKind::Directory {
            self.tree.descriptors.remove(address as usize);
        }
        self.tree.table.remove(fingerprint(self.mount, self.ino), address);
    }

    /// The directory that it was last seen in, given up.
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
