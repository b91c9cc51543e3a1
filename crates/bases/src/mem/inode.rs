//! Inodes: one object in memory, its lock, and the state that the lock guards.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak};

use vnode::{
    Attributes, Caller, Cookie, Device, Entry, Errno, FileKind, Handle, InodeNumber, LockTable, Result, Timestamp,
    VnodeRef, profile,
};

use crate::unix::creation::Inherited;
use crate::unix::permissions;
use crate::unix::times::Times;

use super::data::{Data, PAGE_SIZE};
use super::directory::{Directory, ListedObject};
use super::memory;
use super::metadata::Metadata;
use super::volume::{ROOT_NUMBER, Volume};
use super::xattr_store::XattrStore;

/// Maximum number of hard links of a non-directory, as ext4's.
pub(crate) const LINKS_MAX: u32 = 65_000;

/// Bytes that each entry adds to a directory's size.
const ENTRY_SIZE: u64 = 32;

/// Maximum length in bytes of a symlink's target that takes no page.
const SHORT_TARGET_MAX: usize = 127;

/// One object. It is the vnode too: a look-up returns another reference to it.
///
/// Invariant of locking: no thread waits for an inode's lock while holding that of one of its descendants, of its links (for
/// non-directories: directories come first), or of a file with a higher number. Two directories are locked together only
/// with their parent, or under the volume's rename lock, where the second is not waited for.
pub(crate) struct Inode {
    pub(crate) volume: Arc<Volume<Inode>>,
    pub(crate) number: InodeNumber,
    pub(crate) kind: FileKind,
    device: Device,
    this: Weak<Inode>,
    state: RwLock<State>,
    /// Advisory locks. Their mutex is never held together with another.
    locks: Mutex<Option<Box<LockTable>>>,
}

/// The mutable state of an object.
pub(crate) struct State {
    pub(crate) metadata: Metadata,
    /// Its links. A directory has at most one; the root has none.
    pub(crate) links: Vec<Link>,
    pub(crate) content: Content,
}

/// One link of an object: the directory, and the cookie of the entry there.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) parent: Weak<Inode>,
    pub(crate) cookie: Cookie,
}

/// The contents by kind.
pub(crate) enum Content {
    File { data: Data, linkable: bool },
    Directory(Box<Directory<Inode>>),
    Symlink(Box<[u8]>),
    Special,
}

/// The initial state of a new inode.
pub(crate) struct NewInode {
    pub(crate) kind: FileKind,
    pub(crate) device: Device,
    pub(crate) uid: u32,
    pub(crate) inherited: Inherited,
    pub(crate) content: Content,
}

impl Inode {
    /// Creates an inode without a name: `nlink` is 0, or 2 for a directory, which is linked immediately.
    ///
    /// # Errors
    /// `ENOSPC` without a free inode, memory, or a page for its initial contents.
    pub(crate) fn new(volume: &Arc<Volume<Inode>>, new: NewInode) -> Result<Arc<Self>> {
        let acls = [&new.inherited.access_acl, &new.inherited.default_acl].into_iter().flatten();
        memory::check_available(memory::ENTRY_BYTES + acls.map(|acl| acl.memory()).sum::<u64>())?;
        let number = volume.next_number();
        volume.reserve_entry(number)?;
        volume.inodes.take(1)?;
        if let Err(errno) = volume.pages.take(new.content.page_count()) {
            volume.inodes.release(1);
            return Err(errno);
        }
        let metadata = Metadata {
            protection: new.inherited.protection(new.kind, new.uid),
            nlink: if new.kind == FileKind::Directory { 2 } else { 0 },
            times: Times::now(),
            xattrs: XattrStore::default(),
        };
        let inode = Arc::new_cyclic(|this| Self {
            volume: volume.clone(),
            number,
            kind: new.kind,
            device: new.device,
            this: this.clone(),
            state: RwLock::new(State { metadata, links: Vec::with_capacity(1), content: new.content }),
            locks: Default::default(),
        });
        volume.register(number, &inode);
        Ok(inode)
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

    /// Returns the identity: the volume's and the inode's number. Numbers are never reused.
    pub(crate) fn identity(&self) -> Handle {
        self.volume.handle(self.number)
    }

    /// Returns the current attributes.
    pub(crate) fn attributes(&self) -> Attributes {
        self.attributes_in(&self.read())
    }

    /// Returns the attributes in a state whose lock the caller holds.
    pub(crate) fn attributes_in(&self, state: &State) -> Attributes {
        let Metadata { protection, times, nlink, .. } = &state.metadata;
        let size = match &state.content {
            Content::File { data, .. } => data.size(),
            Content::Directory(directory) => directory.len() as u64 * ENTRY_SIZE,
            Content::Symlink(target) => target.len() as u64,
            Content::Special => 0,
        };
        Attributes {
            kind: self.kind,
            mode: protection.mode,
            nlink: *nlink,
            uid: protection.uid,
            gid: protection.gid,
            rdev: self.device,
            ino: self.number,
            size,
            blocks: state.page_count() * (PAGE_SIZE / 512),
            block_size: PAGE_SIZE as u32,
            atime: times.atime,
            mtime: times.mtime,
            ctime: times.ctime,
            btime: Some(times.btime),
            flags: 0,
            flags_known: 0,
            is_provisional: false,
        }
    }

    /// Returns the inode as the result of a look-up.
    pub(crate) fn entry(&self) -> Entry {
        Entry { vnode: profile::vnode(self.to_arc()), attributes: self.attributes() }
    }

    /// Returns the inode of a vnode of this file system.
    ///
    /// # Errors
    /// `EXDEV` for a vnode of another file system.
    pub(crate) fn of_same_volume<'a>(&self, vnode: &'a VnodeRef) -> Result<&'a Self> {
        let inode = vnode.as_any().downcast_ref::<Self>().ok_or(Errno::EXDEV)?;
        if Arc::ptr_eq(&inode.volume, &self.volume) { Ok(inode) } else { Err(Errno::EXDEV) }
    }

    /// Returns whether this is the root directory.
    pub(crate) fn is_root(&self) -> bool {
        self.number == ROOT_NUMBER
    }

    /// Returns the parent of this directory; `None` for the root and for removed directories.
    pub(crate) fn parent_directory(&self) -> Option<Arc<Self>> {
        self.read().links.first().and_then(|link| link.parent.upgrade())
    }

    /// Updates the access time by the rules of `relatime`: only if it is not later than the last change, or a day old.
    pub(crate) fn update_access_time(&self) {
        let now = Timestamp::now();
        if self.read().metadata.times.needs_access_time_update(now) {
            self.write().metadata.times.atime = now;
        }
    }
}

impl Drop for Inode {
    /// Returns the inode's resources. The inodes below a directory that is dropped with the whole file system are dismantled
    /// in a loop: recursion into a deep tree would overflow the stack.
    fn drop(&mut self) {
        let volume = self.volume.clone();
        volume.forget(self.number);
        volume.inodes.release(1);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        volume.pages.release(state.page_count());
        let mut orphans = state.take_entries();
        while let Some(orphan) = orphans.pop() {
            if let Some(mut last) = Arc::into_inner(orphan) {
                orphans.extend(last.state.get_mut().unwrap_or_else(PoisonError::into_inner).take_entries());
            }
        }
        // Dropped here rather than after this function, so that its memory is free.
        state.content = Content::Special;
        volume.return_memory();
    }
}

impl ListedObject for Inode {
    fn number(&self) -> InodeNumber {
        self.number
    }

    fn kind(&self) -> FileKind {
        self.kind
    }
}

impl State {
    /// Returns the directory's entries.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub(crate) fn directory(&self) -> Result<&Directory<Inode>> {
        match &self.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Returns the directory's entries for modification.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub(crate) fn directory_mut(&mut self) -> Result<&mut Directory<Inode>> {
        match &mut self.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Checks whether the caller may add a name to this directory.
    ///
    /// # Errors
    /// `ENOTDIR`, `EACCES`, and `ENOENT` for a removed directory.
    pub(crate) fn check_creation(&self, caller: &Caller) -> Result<()> {
        if self.directory()?.is_removed() {
            return Err(Errno::ENOENT);
        }
        permissions::check(&self.metadata.protection, caller, permissions::WRITE | permissions::SEARCH)
    }

    /// Returns a regular file's data.
    ///
    /// # Errors
    /// `EINVAL` for anything but a regular file.
    pub(crate) fn data(&self) -> Result<&Data> {
        match &self.content {
            Content::File { data, .. } => Ok(data),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns the data and the metadata of a regular file for modification.
    ///
    /// # Errors
    /// `EINVAL` for anything but a regular file.
    pub(crate) fn file_mut(&mut self) -> Result<(&mut Data, &mut Metadata)> {
        match &mut self.content {
            Content::File { data, .. } => Ok((data, &mut self.metadata)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Removes one link from the object.
    pub(crate) fn remove_link(&mut self, parent: &Inode, cookie: Cookie) {
        let is_it = |link: &Link| link.cookie == cookie && std::ptr::eq(link.parent.as_ptr(), parent);
        if let Some(index) = self.links.iter().position(is_it) {
            self.links.swap_remove(index);
        }
    }

    /// Reserves the memory of one more link.
    ///
    /// # Errors
    /// `ENOSPC` without memory.
    pub(crate) fn reserve_link(&mut self) -> Result<()> {
        self.links.try_reserve(1).map_err(|_| Errno::ENOSPC)
    }

    /// Adds a link to the object. Its memory has been reserved.
    pub(crate) fn add_link(&mut self, parent: &Inode, cookie: Cookie) {
        self.links.push(Link { parent: parent.this.clone(), cookie });
    }

    /// Returns the number of pages taken from the volume's budget.
    fn page_count(&self) -> u64 {
        self.content.page_count() + self.metadata.xattrs.page_count()
    }

    fn take_entries(&mut self) -> Vec<Arc<Inode>> {
        self.directory_mut().map(|directory| directory.take_all()).unwrap_or_default()
    }
}

impl Content {
    /// Returns the number of pages taken from the volume's budget. A short target takes none, as on Linux's file systems.
    fn page_count(&self) -> u64 {
        match self {
            Self::File { data, .. } => data.page_count(),
            Self::Symlink(target) if target.len() > SHORT_TARGET_MAX => 1,
            _ => 0,
        }
    }
}
