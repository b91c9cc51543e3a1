//! The store: the hidden directory with the entries of objects that have several names, and the numbers of these names.

use std::sync::{Arc, Weak};

use vnode::{Device, Errno, FileKind, InodeNumber, Result, Timestamp};

use crate::fat::directory::contents::Contents;
use crate::fat::format::{Entry, EntryAttributes};
use crate::fat::links::{LinkNumber, NAMES_MAX, STORE_ATTRIBUTES, STORE_NAME, names_of, object_number, set_names};
use crate::fat::sidecar::store::{Owner, identity};
use crate::unix::protection::Protection;

use super::changing::Change;
use super::create::{NewObject, Unnamed};
use super::handles::handle_of;
use super::inode::{Inode, Link, NewInode, State, StoredObject};
use super::metadata::Metadata;
use super::volume::Volume;

/// Number of random numbers that are tried for an object.
const NUMBERS_TRIED: usize = 100;

impl Volume<Inode> {
    /// Finds the store of a volume that is being mounted. Names lead nowhere as long as it cannot be read.
    pub(crate) fn open_store(&self, root: &Inode) {
        let opened = || {
            let state = root.read_loaded()?;
            state.contents()?.find_store().map(|slot| root.child_of_entry(&state, slot)).transpose()
        };
        if !self.has_sidecars {
            return;
        }
        match opened() {
            Ok(Some(store)) => self.set_store(store.number, store),
            Ok(None) => {}
            Err(errno) => tracing::error!("{}: hard links cannot be read: {errno}", self.storage.title()),
        }
    }

    /// Returns the store, which is created if there is none. Called without any lock of an inode held.
    ///
    /// # Errors
    /// `EPERM` if something else has its name; `ENOSPC`, `EIO`, `ENOMEM`.
    pub(crate) fn require_store(&self, change: &Change<'_>) -> Result<Arc<Inode>> {
        if let Some(store) = self.store() {
            return Ok(store);
        }
        let root = self.root.get().and_then(Weak::upgrade).ok_or(Errno::EROFS)?;
        let mut state = root.write();
        root.load(&mut state)?;
        match self.store() {
            Some(store) => Ok(store),
            None if state.contents()?.find(&self.rules.dotted_short(&STORE_NAME)).is_some() => Err(Errno::EPERM),
            None => root.create_store(change, &mut state),
        }
    }
}

impl Inode {
    /// Creates the store in this directory, the root, whose state the caller holds locked and loaded.
    fn create_store(&self, _change: &Change<'_>, state: &mut State) -> Result<Arc<Inode>> {
        let (kind, mode) = (FileKind::Directory, 0o700);
        let protection = Protection { kind, uid: 0, gid: 0, mode, access_acl: None, default_acl: None };
        let created = self.volume.stamps.next(Timestamp::now());
        let mut metadata = Metadata::new(protection, Device::default(), created, &self.volume.options);
        metadata.attributes |= STORE_ATTRIBUTES;
        self.reserve_record(state, self.record_size(&metadata))?;
        let mut entry = Entry::new(STORE_NAME, EntryAttributes::DIRECTORY);
        self.make_room(state, &state.contents()?.prepare_short(entry))?;
        let new = NewObject { kind, mode, device: Device::default(), target: &[] };
        let Unnamed { metadata, chain, size, number } = self.make(metadata, &new)?;
        metadata.store(&mut entry, self.volume.coding());
        let cluster = chain.first();
        entry.set_first_cluster(self.volume.storage.geometry().width(), cluster);
        let prepared = state.contents()?.prepare_short(entry);
        let slot = state.contents_mut()?.insert(&prepared)?;
        if let Some(sidecar) = self.lock_sidecar().as_mut() {
            sidecar.set(Owner::Slot(slot), Box::new(metadata.record(size, &self.volume.options)));
        }
        self.mark_contents_dirty(state);
        let link = Link { parent: self.to_arc(), slot, cluster };
        let default = link.default_number();
        let handle = handle_of(&self.volume, number, self.place(slot), metadata.created);
        let (link, stored, is_dangling) = (Some(link), None, false);
        let store =
            Inode::new(&self.volume, NewInode { number, handle, metadata, link, stored, is_dangling, chain, size });
        self.volume.live.insert(number, &store);
        self.volume.rebind(number, None, Some(default));
        self.volume.set_store(number, store.clone());
        Ok(store)
    }

    /// Returns whether this is the store.
    pub(crate) fn is_store(&self) -> bool {
        self.volume.is_store(self.number)
    }

    /// Returns the number of the object that an entry of this directory is a name of; `None` for an object of its own.
    pub(crate) fn link_number(&self, entry: &Entry) -> Option<LinkNumber> {
        let has_links = self.volume.has_sidecars && !self.is_store();
        let width = self.volume.storage.geometry().width();
        if has_links { LinkNumber::of_name(entry, width) } else { None }
    }

    /// Returns what this directory, if it is the store, knows of the object of an entry. A number of names that makes no sense is taken
    /// for the highest one: then the object is not removed too early.
    pub(crate) fn stored_in(&self, contents: &Contents, entry: &Entry) -> Option<StoredObject> {
        let number = object_number(entry).filter(|_| self.is_store())?;
        let count = contents.find_short(&number.count_name(), |_| true).and_then(|slot| contents.entry(slot));
        let names = count.as_ref().and_then(names_of).unwrap_or(NAMES_MAX);
        Some(StoredObject { number, names })
    }

    /// Returns the object with a number in this directory, the store; `None` if there is none. Called without its lock held.
    ///
    /// # Errors
    /// As [`Inode::child`].
    pub(crate) fn stored_object(&self, number: LinkNumber) -> Result<Option<Arc<Inode>>> {
        let state = self.read_loaded()?;
        let contents = state.contents()?;
        let slot = contents.find_short(&number.object_name(), |entry| !entry.is_directory());
        slot.map(|slot| self.child_of_entry(&state, slot)).transpose()
    }

    /// Returns inode number and kind of the object with a number in this directory, the store. Called without its lock held.
    pub(crate) fn listed_object(&self, number: LinkNumber) -> Option<(InodeNumber, FileKind)> {
        let state = self.read_loaded().ok()?;
        let contents = state.contents().ok()?;
        let slot = contents.find_short(&number.object_name(), |entry| !entry.is_directory())?;
        let entry = contents.entry(slot)?;
        let sidecar = self.lock_sidecar();
        let record = sidecar.as_ref().and_then(|sidecar| sidecar.record(Owner::Slot(slot)));
        Some((self.number_of(slot, &entry), Metadata::kind_of(&entry, record, &self.volume.entry_metadata)))
    }

    /// Adds an object to this directory, the store, whose state the caller holds locked and loaded. The object has one name, and had the
    /// entry `entry`. Returns its slot and number.
    ///
    /// # Errors
    /// `ENOSPC`; `EIO`, `ENOMEM`.
    pub(crate) fn add_object(&self, state: &mut State, entry: &Entry) -> Result<(u32, LinkNumber)> {
        let contents = state.contents()?;
        let is_free = |number: &LinkNumber| {
            [number.object_name(), number.count_name()].iter().all(|name| contents.find_short(name, |_| true).is_none())
        };
        let number = std::iter::repeat_with(LinkNumber::random).take(NUMBERS_TRIED).find(is_free);
        let number = number.ok_or(Errno::ENOSPC)?;
        let count = contents.prepare_short(number.count_entry(1, entry));
        let object = contents.prepare_short(number.object_entry(entry));
        self.make_room(state, &count)?;
        let count = state.contents_mut()?.insert(&count)?;
        let added = self.make_room(state, &object).and_then(|()| state.contents_mut()?.insert(&object));
        if added.is_err() {
            state.contents_mut()?.remove(count);
        }
        self.mark_contents_dirty(state);
        Ok((added?, number))
    }

    /// Sets the number of names of an object in this directory, the store, whose state the caller holds locked and loaded.
    pub(crate) fn set_stored_names(&self, state: &mut State, stored: StoredObject) -> Result<()> {
        let contents = state.contents_mut()?;
        if let Some(slot) = contents.find_short(&stored.number.count_name(), |_| true) {
            contents.set_entry(slot, |entry| set_names(entry, stored.names));
        }
        self.mark_contents_dirty(state);
        Ok(())
    }

    /// Removes an object from this directory, the store, whose state the caller holds locked and loaded.
    pub(crate) fn remove_object(&self, state: &mut State, slot: u32, number: LinkNumber) -> Result<()> {
        let contents = state.contents_mut()?;
        if let Some(sidecar) = self.lock_sidecar().as_mut() {
            sidecar.remove(slot, identity(contents, slot, self.volume.access()));
        }
        contents.remove(slot);
        if let Some(count) = contents.find_short(&number.count_name(), |_| true) {
            contents.remove(count);
        }
        self.mark_contents_dirty(state);
        Ok(())
    }
}
