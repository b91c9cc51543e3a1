//! Inodes: one object in memory, its lock, and the state that the lock guards.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak};

use vnode::profile::Part;
use vnode::{Attributes, Caller, Errno, FileKind, Handle, InodeNumber, LockTable, Result, VnodeRef};

use crate::fat::directory::contents::Contents;
use crate::fat::links::LinkNumber;
use crate::fat::sidecar::store::Sidecar;
use crate::fat::volume::chain::Chain;
use crate::unix::permissions;

use super::KIND;
use super::metadata::Metadata;
use super::numbers::{EntryLocation, ROOT_NUMBER};
use super::volume::Volume;

/// The volume of these inodes.
pub(crate) type Shared = Arc<Volume<Inode>>;

/// Smallest size of efficient reads and writes that is reported, in bytes.
const BLOCK_SIZE_MIN: u32 = 16 << 10;

/// Maximum number of names of an object that are remembered.
const SEEN_NAMES_MAX: usize = 4;

/// One object. It is the vnode too: a look-up returns another reference to it.
///
/// Invariant of locking: whoever makes changes holds the volume's barrier first. No thread waits for an inode's lock while holding that
/// of one of its descendants, or of a file with a higher number. Two directories are locked together only with their parent, or under
/// the volume's rename lock, where the second is not waited for. The lock of the store, the directory of objects with several names,
/// comes after those of all other directories and before those of files. A sidecar's lock comes after all locks of inodes, then a
/// chain's, that of the clusters, and that of the pending changes, which nobody holds while waiting for another.
pub(crate) struct Inode {
    pub(crate) volume: Shared,
    pub(crate) number: InodeNumber,
    pub(crate) kind: FileKind,
    pub(crate) handle: Handle,
    this: Weak<Inode>,
    /// The clusters of its data. The first is that of the entry, or will be.
    pub(crate) chain: Mutex<Chain>,
    state: RwLock<State>,
    /// The directory and the slot of the entry, as the state has them. This lock is held for no longer than it takes to copy them.
    position: Mutex<Option<Position>>,
    /// Names of an object in the store that were seen last, as directories and slots, and may be gone. This lock is held for no longer
    /// than it takes to copy or change them.
    seen_names: Mutex<VecDeque<SeenName>>,
    /// The entry is a name of an object that the store does not have.
    pub(crate) is_dangling: bool,
    /// Records of the objects in this directory, while its contents are in memory.
    sidecar: Mutex<Option<Sidecar>>,
    /// Number of changes of the data of a file, which happen under the lock of its state.
    pub(crate) data_version: AtomicU64,
    /// Advisory locks. Their mutex is never held together with another.
    locks: Mutex<Option<Box<LockTable>>>,
}

/// The mutable state of an object.
pub(crate) struct State {
    pub(crate) metadata: Metadata,
    /// The entry of the object. The root has none, nor have objects without a name.
    pub(crate) link: Option<Link>,
    /// Present if the entry is in the store.
    pub(crate) stored: Option<StoredObject>,
    /// The object can get a name if it has none.
    pub(crate) is_linkable: bool,
    /// Size of a file in bytes.
    pub(crate) size: u64,
    /// Clusters that a file keeps although it does not need them, until the last of those who reserved some closes it.
    pub(crate) reserved_clusters: u32,
    /// Number of open files by which clusters were reserved.
    pub(crate) reservers: u32,
    /// Entries of a directory, while they are in memory.
    pub(crate) contents: Option<Contents>,
    /// The entry of the object differs from this state.
    pub(crate) is_dirty: bool,
    /// The disk may lack blocks of the contents that are being written.
    pub(crate) is_being_written: bool,
}

/// The entry of an object.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) parent: Arc<Inode>,
    /// Slot of the entry in the parent.
    pub(crate) slot: u32,
    /// First cluster that the entry has.
    pub(crate) cluster: u32,
}

impl Link {
    fn position(&self) -> Position {
        (self.parent.number, self.slot)
    }

    /// Returns the number that the object has by default.
    pub(crate) fn default_number(&self) -> InodeNumber {
        self.parent.place(self.slot).default_number(self.cluster)
    }
}

/// What the store knows of an object besides its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredObject {
    pub(crate) number: LinkNumber,
    /// Number of names.
    pub(crate) names: u32,
}

/// A directory, and the slot of a name in it.
type SeenName = (Weak<Inode>, u32);

/// Number of a directory, and a slot in it.
type Position = (InodeNumber, u32);

/// What a new inode begins with.
pub(crate) struct NewInode {
    pub(crate) number: InodeNumber,
    pub(crate) handle: Handle,
    pub(crate) metadata: Metadata,
    pub(crate) link: Option<Link>,
    /// Present if the link is in the store.
    pub(crate) stored: Option<StoredObject>,
    /// See [`Inode::is_dangling`].
    pub(crate) is_dangling: bool,
    pub(crate) chain: Chain,
    pub(crate) size: u64,
}

impl Part for Inode {
    const PART: &'static str = KIND;
}

impl Inode {
    /// Creates the inode of an object. It is not yet in the table of the volume.
    pub(crate) fn new(volume: &Shared, new: NewInode) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            volume: volume.clone(),
            number: new.number,
            kind: new.metadata.protection.kind,
            handle: new.handle,
            this: this.clone(),
            chain: Mutex::new(new.chain),
            position: Mutex::new(new.link.as_ref().map(Link::position)),
            seen_names: Mutex::default(),
            is_dangling: new.is_dangling,
            state: RwLock::new(State {
                metadata: new.metadata,
                link: new.link,
                stored: new.stored,
                is_linkable: false,
                size: new.size,
                reserved_clusters: 0,
                reservers: 0,
                contents: None,
                is_dirty: false,
                is_being_written: false,
            }),
            sidecar: Mutex::default(),
            data_version: AtomicU64::new(0),
            locks: Mutex::default(),
        })
    }

    /// Returns another reference to this inode.
    pub(crate) fn to_arc(&self) -> Arc<Self> {
        self.this.upgrade().expect("an inode in use is referred to")
    }

    /// Locks the state for reading.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for writing.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for writing, if nobody holds its lock.
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, State>> {
        match self.state.try_write() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sets the entry of the object, whose state the caller holds locked. Returns the one before.
    pub(crate) fn set_link(&self, state: &mut State, link: Option<Link>) -> Option<Link> {
        *self.position.lock().unwrap_or_else(PoisonError::into_inner) = link.as_ref().map(Link::position);
        std::mem::replace(&mut state.link, link)
    }

    /// Returns whether the entry of the object is in this slot of a directory, whose state the caller holds locked. Takes no lock of the
    /// object, which in a damaged volume can be one of the directories above.
    pub(crate) fn is_in(&self, directory: &Inode, slot: u32) -> bool {
        let position = *self.position.lock().unwrap_or_else(PoisonError::into_inner);
        position == Some((directory.number, slot))
    }

    /// Notes a name of this object, which is in the store.
    pub(crate) fn note_name(&self, directory: &Inode, slot: u32) {
        let mut names = self.seen_names.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|(seen, at)| *at != slot || seen.as_ptr() != directory.this.as_ptr());
        names.truncate(SEEN_NAMES_MAX - 1);
        names.push_front((directory.this.clone(), slot));
    }

    /// Notes that a name of this object is gone.
    pub(crate) fn forget_name(&self, directory: &Inode, slot: u32) {
        let mut names = self.seen_names.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|(seen, at)| *at != slot || seen.as_ptr() != directory.this.as_ptr());
    }

    /// Returns where names of this object were seen, the last one first. They may be gone, or others' now.
    pub(crate) fn seen_names(&self) -> Vec<(Arc<Inode>, u32)> {
        let names = self.seen_names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        names.into_iter().filter_map(|(directory, slot)| Some((directory.upgrade()?, slot))).collect()
    }

    /// Locks the chain.
    pub(crate) fn lock_chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the sidecar of this directory.
    pub(crate) fn lock_sidecar(&self) -> MutexGuard<'_, Option<Sidecar>> {
        self.sidecar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `action` on the table of advisory locks, which is created on first use.
    pub(crate) fn with_locks<T>(&self, action: impl FnOnce(&mut LockTable) -> T) -> T {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        action(locks.get_or_insert_default())
    }

    /// Releases advisory locks, if there ever were any.
    pub(crate) fn release_locks(&self, release: impl FnOnce(&mut LockTable)) {
        if let Some(table) = &mut *self.locks.lock().unwrap_or_else(PoisonError::into_inner) {
            release(table);
        }
    }

    /// Returns whether this is the root directory.
    pub(crate) fn is_root(&self) -> bool {
        self.number == ROOT_NUMBER
    }

    /// Returns the place of an entry in this directory.
    pub(crate) fn place(&self, slot: u32) -> EntryLocation {
        let directory = match self.volume.storage.geometry().root_region() {
            Some(_) if self.is_root() => 0,
            _ => self.lock_chain().first(),
        };
        EntryLocation { directory, slot }
    }

    /// Returns the first cluster that an entry `..` has for this directory.
    pub(crate) fn cluster_as_parent(&self) -> u32 {
        if self.is_root() { 0 } else { self.lock_chain().first() }
    }

    /// Returns the attributes in a state whose lock the caller holds.
    pub(crate) fn attributes_in(&self, state: &State) -> Attributes {
        let Metadata { protection, times, device, .. } = &state.metadata;
        let cluster_size = self.volume.storage.geometry().cluster_size();
        let is_directory = self.kind == FileKind::Directory;
        let (size, clusters) = match is_directory {
            true => (self.directory_size(state), self.volume.clusters_of(self.directory_size(state))),
            false => {
                let used = self.volume.clusters_of(state.size).max(state.reserved_clusters);
                (state.size, used)
            }
        };
        let nlink = match &state.contents {
            _ if state.is_unlinked(self) => 0,
            _ if !is_directory => state.stored.map_or(1, |stored| stored.names),
            contents => 2 + contents.as_ref().map_or(0, |contents| self.shown_subdirectories(contents)),
        };
        let is_special = !matches!(self.kind, FileKind::Regular | FileKind::Directory | FileKind::Symlink);
        Attributes {
            kind: self.kind,
            mode: protection.mode,
            nlink,
            uid: protection.uid,
            gid: protection.gid,
            rdev: *device,
            ino: self.number,
            size: if is_special { 0 } else { size },
            blocks: u64::from(clusters) * u64::from(cluster_size) / 512,
            block_size: match self.volume.options.block {
                0 => cluster_size.max(BLOCK_SIZE_MIN),
                block => block,
            },
            atime: times.atime,
            mtime: times.mtime,
            ctime: times.ctime,
            btime: (!self.volume.entry_metadata.is_used()).then_some(times.btime),
            flags: 0,
            flags_known: 0,
            is_provisional: false,
        }
    }

    /// Returns the number of directories in this one that others see.
    fn shown_subdirectories(&self, contents: &Contents) -> u32 {
        let has_store = self.is_root() && self.volume.has_sidecars && contents.find_store().is_some();
        contents.subdirectories().saturating_sub(has_store.into())
    }

    /// Returns the size of a directory: that of its clusters, as far as they are known.
    fn directory_size(&self, state: &State) -> u64 {
        let geometry = self.volume.storage.geometry();
        match (&state.contents, geometry.root_region()) {
            (_, Some((_, size))) if self.is_root() => size.into(),
            (Some(contents), _) => u64::from(contents.capacity()) * crate::fat::format::ENTRY_SIZE as u64,
            (None, _) => u64::from(self.lock_chain().known_length().unwrap_or(1)) * u64::from(geometry.cluster_size()),
        }
    }

    /// Returns the inode of a vnode of this file system.
    ///
    /// # Errors
    /// `EXDEV` for a vnode of another file system.
    pub(crate) fn of_same_volume<'a>(&self, vnode: &'a VnodeRef) -> Result<&'a Self> {
        let inode = vnode.as_any().downcast_ref::<Self>().ok_or(Errno::EXDEV)?;
        if Arc::ptr_eq(&inode.volume, &self.volume) { Ok(inode) } else { Err(Errno::EXDEV) }
    }

    /// Returns the parent of this directory; `None` for the root and for removed directories.
    pub(crate) fn parent_directory(&self) -> Option<Arc<Self>> {
        self.read().link.as_ref().map(|link| link.parent.clone())
    }

    /// Notes that the entry of this object, or its record, differs from the state, whose lock the caller holds.
    pub(crate) fn mark_dirty(&self, state: &mut State) {
        if !state.is_dirty && (state.link.is_some() || self.is_root()) {
            state.is_dirty = true;
            self.volume.lock_pending().inodes.insert(self.number, self.to_arc());
        }
    }

    /// Notes that blocks of this directory, whose state the caller holds locked, or its records have changed.
    pub(crate) fn mark_contents_dirty(&self, state: &mut State) {
        let blocks = state.contents.as_mut().map_or(0, |contents| contents.take_newly_dirty());
        let mut pending = self.volume.lock_pending();
        pending.blocks += blocks;
        pending.directories.insert(self.number, self.to_arc());
    }

    /// Notes that this file has more clusters than it needs.
    pub(crate) fn mark_truncated(&self) {
        self.volume.lock_pending().truncated.insert(self.number, self.to_arc());
    }

    /// Forgets the contents of a directory, whose state the caller holds locked, and whose sidecar took this memory in bytes.
    pub(crate) fn drop_contents(&self, state: &mut State, sidecar_bytes: u64) {
        if let Some(contents) = state.contents.take() {
            let bytes = contents.memory() + sidecar_bytes;
            let less = |loaded: u64| Some(loaded.saturating_sub(bytes));
            let _ = self.volume.loaded_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Completes a change of the metadata of an object, whose state the caller holds locked.
    pub(crate) fn metadata_changed(&self, state: &mut State) {
        self.volume.round_times(&mut state.metadata);
        self.mark_dirty(state);
    }
}

impl State {
    /// Returns the entries of a directory whose contents were loaded.
    ///
    /// # Errors
    /// `ENOTDIR` for anything else.
    pub(crate) fn contents(&self) -> Result<&Contents> {
        self.contents.as_ref().ok_or(Errno::ENOTDIR)
    }

    /// Returns the entries of a directory whose contents were loaded, for modification.
    ///
    /// # Errors
    /// `ENOTDIR` for anything else.
    pub(crate) fn contents_mut(&mut self) -> Result<&mut Contents> {
        self.contents.as_mut().ok_or(Errno::ENOTDIR)
    }

    /// Returns whether the object has no name.
    pub(crate) fn is_unlinked(&self, inode: &Inode) -> bool {
        self.link.is_none() && !inode.is_root()
    }

    /// Checks whether the caller may add a name to this directory.
    ///
    /// # Errors
    /// `ENOTDIR`, `EACCES`, and `ENOENT` for a removed directory.
    pub(crate) fn check_creation(&self, inode: &Inode, caller: &Caller) -> Result<()> {
        if inode.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        if self.is_unlinked(inode) {
            return Err(Errno::ENOENT);
        }
        permissions::check(&self.metadata.protection, caller, permissions::WRITE | permissions::SEARCH)
    }
}

impl Drop for Inode {
    /// Frees what an object without a name has. The references to directories above are dropped in a loop: recursion up a deep tree
    /// would overflow the stack.
    fn drop(&mut self) {
        let volume = self.volume.clone();
        volume.live.forget(&self.number);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_unlinked = state.link.is_none() && self.number != ROOT_NUMBER;
        if is_unlinked {
            let used = volume.clusters_of(state.size);
            let chain = self.chain.get_mut().unwrap_or_else(PoisonError::into_inner);
            let length_max = match chain.known_length() {
                Some(length) => length,
                None if volume.is_trusted || self.kind == FileKind::Directory => u32::MAX,
                None => used,
            };
            volume.free_later(chain.first(), length_max);
            volume.release_number(self.number);
            volume.stamps.retire(state.metadata.created, volume.options.time_offset_minutes);
        }
        let mut above = state.link.take().map(|link| link.parent);
        while let Some(parent) = above {
            above = match Arc::into_inner(parent) {
                Some(mut last) => {
                    let state = last.state.get_mut().unwrap_or_else(PoisonError::into_inner);
                    let next = state.link.as_ref().map(|link| link.parent.clone());
                    drop(last);
                    next
                }
                None => None,
            };
        }
    }
}
