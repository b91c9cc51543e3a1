//! Directories: entries by name and by cookie.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use vnode::{Cookie, Errno, FileKind, InodeNumber, Name, Result};

use super::memory;

/// Number of entries copied at a time, so that no lock is held while the caller consumes them.
pub(crate) const BATCH: usize = 64;

/// An object as its directory lists it.
pub(crate) trait ListedObject {
    /// Returns the inode number.
    fn number(&self) -> InodeNumber;
    /// Returns the kind.
    fn kind(&self) -> FileKind;
}

/// The entries of a directory, of objects of type `I`, in order of creation.
///
/// Invariant: both maps have the same entries. Cookies only grow, so that none is ever reused.
pub(crate) struct Directory<I> {
    by_name: HashMap<Arc<[u8]>, DirectorySlot<I>>,
    by_cookie: BTreeMap<Cookie, ListedEntry>,
    next_cookie: Cookie,
    removed: bool,
}

/// The object that a name refers to.
pub(crate) struct DirectorySlot<I> {
    pub(crate) cookie: Cookie,
    pub(crate) inode: Arc<I>,
}

/// An entry as a reader of the directory sees it.
#[derive(Clone)]
pub(crate) struct ListedEntry {
    pub(crate) name: Arc<[u8]>,
    pub(crate) number: InodeNumber,
    pub(crate) kind: FileKind,
}

impl ListedEntry {
    fn new(name: Arc<[u8]>, object: &impl ListedObject) -> Self {
        Self { name, number: object.number(), kind: object.kind() }
    }
}

impl<I> Clone for DirectorySlot<I> {
    fn clone(&self) -> Self {
        Self { cookie: self.cookie, inode: self.inode.clone() }
    }
}

impl<I> Default for Directory<I> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), by_cookie: BTreeMap::new(), next_cookie: Cookie::FIRST, removed: false }
    }
}

impl<I: ListedObject> Directory<I> {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether the directory was removed: nothing is ever created in it again.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed
    }

    /// Marks the directory, which is empty, as removed.
    pub(crate) fn set_removed(&mut self) {
        self.removed = true;
    }

    /// Returns the slot of `name`.
    pub(crate) fn get(&self, name: Name<'_>) -> Option<&DirectorySlot<I>> {
        self.by_name.get(name.as_bytes())
    }

    /// Returns the name with that cookie.
    pub(crate) fn name_of(&self, cookie: Cookie) -> Option<Arc<[u8]>> {
        self.by_cookie.get(&cookie).map(|listed| listed.name.clone())
    }

    /// Reserves the memory of one more name.
    ///
    /// # Errors
    /// `ENOSPC` without memory.
    pub(crate) fn reserve(&mut self) -> Result<()> {
        memory::check_available(memory::ENTRY_BYTES)?;
        self.by_name.try_reserve(1).map_err(|_| Errno::ENOSPC)
    }

    /// Adds a name that does not exist yet, and returns its cookie. Its memory has been reserved.
    pub(crate) fn insert(&mut self, name: Name<'_>, inode: Arc<I>) -> Cookie {
        let name: Arc<[u8]> = name.as_bytes().into();
        let cookie = self.next_cookie;
        self.next_cookie = cookie.next();
        self.by_cookie.insert(cookie, ListedEntry::new(name.clone(), &*inode));
        let before = self.by_name.insert(name, DirectorySlot { cookie, inode });
        debug_assert!(before.is_none(), "a name is there once");
        cookie
    }

    /// Makes an existing name refer to another inode. Its cookie stays, and is returned with the old inode.
    pub(crate) fn replace(&mut self, name: Name<'_>, inode: Arc<I>) -> Option<DirectorySlot<I>> {
        let slot = self.by_name.get_mut(name.as_bytes())?;
        if let Some(listed) = self.by_cookie.get_mut(&slot.cookie) {
            *listed = ListedEntry::new(listed.name.clone(), &*inode);
        }
        let before = std::mem::replace(&mut slot.inode, inode);
        Some(DirectorySlot { cookie: slot.cookie, inode: before })
    }

    /// Removes a name.
    pub(crate) fn remove(&mut self, name: Name<'_>) -> Option<DirectorySlot<I>> {
        let slot = self.by_name.remove(name.as_bytes())?;
        self.by_cookie.remove(&slot.cookie);
        Some(slot)
    }

    /// Removes all entries, and returns their inodes.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<I>> {
        self.by_cookie.clear();
        self.by_name.drain().map(|(_, slot)| slot.inode).collect()
    }

    /// Returns some of the entries after a cookie; fewer than [`BATCH`] are the last.
    pub(crate) fn batch_after(&self, cookie: Cookie) -> Vec<(Cookie, ListedEntry)> {
        let after = (Bound::Excluded(cookie), Bound::Unbounded);
        self.by_cookie.range(after).take(BATCH).map(|(&cookie, listed)| (cookie, listed.clone())).collect()
    }
}
