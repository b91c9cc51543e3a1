//! Hard links: names are added to and taken from objects, which move into the store with their second name, and out of it with their
//! last but one.

use std::sync::{Arc, RwLockWriteGuard};

use vnode::{Caller, Entry as FoundEntry, Errno, FileKind, Name, RenameMode, Result};

use crate::fat::format::{Entry, EntryAttributes, ShortName};
use crate::fat::links::NAMES_MAX;

use super::changing::Change;
use super::inode::{Inode, State, StoredObject};
use super::pending::LinkOrder;
use super::relink::copy_object;

/// Number of times that an operation follows an object that is renamed meanwhile.
const ATTEMPTS_MAX: usize = 100;

/// The store, with its lock. Those of other directories come before it, and those of objects after it.
pub(crate) struct LockedStore<'a> {
    pub(crate) store: &'a Inode,
    pub(crate) state: RwLockWriteGuard<'a, State>,
}

impl<'a> LockedStore<'a> {
    /// Locks the store, and loads its contents.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn lock(store: &'a Inode) -> Result<Self> {
        let mut state = store.write();
        store.load(&mut state)?;
        Ok(Self { store, state })
    }
}

impl Inode {
    /// Gives an object that has a name another one in this directory.
    ///
    /// # Errors
    /// As link(2); `EPERM` on volumes that have no hard links.
    pub(crate) fn add_name(
        &self,
        change: &Change<'_>,
        caller: &Caller,
        object: &Arc<Inode>,
        name: Name<'_>,
    ) -> Result<FoundEntry> {
        {
            let mut state = self.write();
            self.load(&mut state)?;
            self.check_link(&state, caller, object, name)?;
        }
        object.check_usable()?;
        self.volume.order_links(change, LinkOrder::StoreFirst)?;
        let store = self.volume.require_store(change)?;
        for _ in 0..ATTEMPTS_MAX {
            object.move_into_store(&store)?;
            match self.insert_name(caller, object, name, &store) {
                Ok(true) => return Ok(object.found()),
                Ok(false) => {}
                Err(errno) => {
                    // If this fails, too, the object stays in the store; also where it would need another order of writes.
                    if self.volume.has_journal() {
                        let _ = object.move_out_of_store(&store);
                    }
                    return Err(errno);
                }
            }
        }
        Err(Errno::EIO)
    }

    /// Checks that the caller may add a name of an object to this directory, whose state the caller holds locked and loaded. Returns
    /// the code units of the name.
    fn check_link(&self, state: &State, caller: &Caller, object: &Inode, name: Name<'_>) -> Result<Vec<u16>> {
        match self.find_slot(state, caller, name) {
            Ok(_) => return Err(Errno::EEXIST),
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        state.check_creation(self, caller)?;
        if object.kind == FileKind::Directory || !self.volume.has_sidecars {
            return Err(Errno::EPERM);
        }
        self.check_new_name(state, name)
    }

    /// Checks that the entry of this object leads to an object.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn check_usable(&self) -> Result<()> {
        if self.is_dangling { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Moves the entry of this object into the store, unless it is there. Its name stays. Called without any lock of an inode held.
    ///
    /// # Errors
    /// `ENOENT` if it has no name; `ENOSPC`; `EIO`, `ENOMEM`.
    fn move_into_store(&self, store: &Inode) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            let link = self.read().link.clone().ok_or(Errno::ENOENT)?;
            if link.parent.is_store() {
                return Ok(());
            }
            let mut parent_state = link.parent.write();
            link.parent.load(&mut parent_state)?;
            let mut locked = LockedStore::lock(store)?;
            let mut state = self.write();
            if !self.is_in(&link.parent, link.slot) {
                continue;
            }
            let entry = parent_state.contents()?.entry(link.slot).ok_or(Errno::EIO)?;
            store.reserve_record(&mut locked.state, self.record_size(&state.metadata))?;
            let (slot, number) = store.add_object(&mut locked.state, &entry)?;
            // Nothing fails from here on.
            link.parent.forget_record(&mut parent_state, link.slot)?;
            let width = self.volume.storage.geometry().width();
            parent_state.contents_mut()?.set_entry(link.slot, |entry| number.store(entry, width));
            link.parent.mark_contents_dirty(&mut parent_state);
            self.relink(&mut state, (store, slot));
            state.stored = Some(StoredObject { number, names: 1 });
            self.note_name(&link.parent, link.slot);
            return Ok(());
        }
        Err(Errno::EIO)
    }

    /// Adds a name of an object in the store to this directory. Returns false if the object is no longer there. Called without any lock
    /// of an inode held.
    fn insert_name(&self, caller: &Caller, object: &Inode, name: Name<'_>, store: &Inode) -> Result<bool> {
        let mut state = self.write();
        self.load(&mut state)?;
        let units = self.check_link(&state, caller, object, name)?;
        let mut locked = LockedStore::lock(store)?;
        let mut object_state = object.write();
        let Some(stored) = object_state.stored else {
            return if object_state.is_unlinked(object) { Err(Errno::ENOENT) } else { Ok(false) };
        };
        if stored.names >= NAMES_MAX {
            return Err(Errno::EMLINK);
        }
        let stored = StoredObject { names: stored.names + 1, ..stored };
        let mut entry = Entry::new(ShortName::DOT, EntryAttributes::default());
        object_state.metadata.store(&mut entry, self.volume.coding());
        stored.number.store(&mut entry, self.volume.storage.geometry().width());
        let prepared = state.contents()?.prepare(&units, entry)?;
        self.make_room(&mut state, &prepared)?;
        let slot = state.contents_mut()?.insert(&prepared)?;
        state.metadata.times.modified();
        self.metadata_changed(&mut state);
        self.mark_contents_dirty(&mut state);
        store.set_stored_names(&mut locked.state, stored)?;
        object_state.stored = Some(stored);
        object_state.metadata.times.changed();
        object.metadata_changed(&mut object_state);
        object.note_name(self, slot);
        Ok(true)
    }

    /// Takes a name from this object after its entry is gone. The object, whose state the caller holds locked, is in the store.
    pub(crate) fn drop_name(&self, state: &mut State, locked: &mut LockedStore<'_>) -> Result<()> {
        let (Some(stored), Some(link)) = (state.stored, state.link.as_ref()) else { return Err(Errno::EIO) };
        let stored = StoredObject { names: stored.names.saturating_sub(1), ..stored };
        if stored.names == 0 {
            locked.store.remove_object(&mut locked.state, link.slot, stored.number)?;
            state.stored = None;
            self.unlink_state(state);
            return Ok(());
        }
        locked.store.set_stored_names(&mut locked.state, stored)?;
        state.stored = Some(stored);
        state.metadata.times.changed();
        self.metadata_changed(state);
        Ok(())
    }

    /// Moves the entry of this object out of the store, if it has one name, which was seen. Called without any lock of an inode held.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`. Without space, the object stays in the store.
    pub(crate) fn move_out_of_store(&self, store: &Inode) -> Result<()> {
        if self.read().stored.is_none_or(|stored| stored.names != 1) {
            return Ok(());
        }
        for (directory, slot) in self.seen_names() {
            match self.move_to_name(store, (&directory, slot)) {
                Ok(false) => {}
                Ok(true) | Err(Errno::ENOSPC) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Moves the entry of this object from the store to its last name, if that is in a slot of a directory. Returns whether it was.
    fn move_to_name(&self, store: &Inode, (directory, slot): (&Inode, u32)) -> Result<bool> {
        let mut directory_state = directory.write();
        if directory_state.is_unlinked(directory) {
            return Ok(false);
        }
        directory.load(&mut directory_state)?;
        let mut locked = LockedStore::lock(store)?;
        let mut state = self.write();
        let (Some(stored), Some(link)) = (state.stored.filter(|stored| stored.names == 1), state.link.clone()) else {
            return Ok(true);
        };
        let name = directory_state.contents()?.entry(slot).and_then(|entry| directory.link_number(&entry));
        if name != Some(stored.number) {
            return Ok(false);
        }
        directory.reserve_record(&mut directory_state, self.record_size(&state.metadata))?;
        let object = locked.state.contents()?.entry(link.slot).ok_or(Errno::EIO)?;
        // Nothing fails from here on.
        directory.forget_record(&mut directory_state, slot)?;
        directory_state.contents_mut()?.set_entry(slot, |entry| copy_object(entry, &object));
        store.remove_object(&mut locked.state, link.slot, stored.number)?;
        state.stored = None;
        self.relink(&mut state, (directory, slot));
        directory.mark_contents_dirty(&mut directory_state);
        Ok(true)
    }

    /// Renames as [`Inode::move_entry`] where a power failure can leave both names: names of objects in the store are counted twice until
    /// the rename is on the disk. Called without any lock held.
    ///
    /// # Errors
    /// As [`Inode::move_entry`].
    pub(crate) fn rename_without_journal(
        &self,
        caller: &Caller,
        (name, to, to_name): (Name<'_>, &Inode, Name<'_>),
        mode: RenameMode,
    ) -> Result<()> {
        let objects = [self.stored_object_of(name), to.stored_object_of(to_name)];
        for object in objects.iter().flatten() {
            self.volume.change(|change| object.count_twice(change))?;
        }
        let renamed = self.volume.change(|change| self.move_entry(change, caller, (name, to, to_name), mode));
        for object in objects.iter().flatten() {
            self.volume.change(|change| object.count_once(change))?;
        }
        renamed
    }

    /// Returns the object in the store that a name in this directory is of.
    fn stored_object_of(&self, name: Name<'_>) -> Option<Arc<Inode>> {
        let state = self.read_loaded().ok()?;
        let contents = state.contents().ok()?;
        let slot = contents.find(&self.volume.rules.units_to_find(name)?)?;
        self.link_number(&contents.entry(slot)?)?;
        self.child(&state, slot).ok().filter(|object| !object.is_dangling)
    }

    /// Counts a name more than this object has, if it is in the store.
    fn count_twice(&self, change: &Change<'_>) -> Result<()> {
        let Some(store) = self.volume.store() else { return Ok(()) };
        self.volume.order_links(change, LinkOrder::StoreFirst)?;
        let mut locked = LockedStore::lock(&store)?;
        let mut state = self.write();
        let Some(stored) = state.stored.filter(|stored| stored.names < NAMES_MAX) else { return Ok(()) };
        let stored = StoredObject { names: stored.names + 1, ..stored };
        store.set_stored_names(&mut locked.state, stored)?;
        state.stored = Some(stored);
        Ok(())
    }

    /// Undoes [`Inode::count_twice`].
    fn count_once(&self, change: &Change<'_>) -> Result<()> {
        let Some(store) = self.volume.store() else { return Ok(()) };
        self.volume.order_links(change, LinkOrder::StoreLast)?;
        {
            let mut locked = LockedStore::lock(&store)?;
            let mut state = self.write();
            if state.stored.is_none() {
                return Ok(());
            }
            self.drop_name(&mut state, &mut locked)?;
        }
        self.move_out_of_store(&store)
    }
}
