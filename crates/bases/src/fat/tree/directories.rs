//! Directories in memory: loading and forgetting their contents, look-ups, and growth.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, RwLockReadGuard};

use vnode::{Attributes, Caller, Entry as FoundEntry, Errno, FileKind, InodeNumber, Name, Result, profile};

use crate::fat::directory::contents::{Contents, PreparedEntry};
use crate::fat::directory::extents::Extents;
use crate::fat::directory::slots::SLOTS_MAX;
use crate::fat::entry_metadata::inline;
use crate::fat::format::{ENTRY_SIZE, Entry};
use crate::fat::journal::JOURNAL_NAME;
use crate::fat::links::{is_store, object_number};
use crate::fat::sidecar::store::{Owner, SIDECAR_NAME, Sidecar, has_visible_sidecar};
use crate::fat::volume::allocation::Near;
use crate::fat::volume::chain::Chain;
use crate::unix::permissions;

use super::handles::handle_of;
use super::inode::{Inode, Link, NewInode, State};
use super::metadata::{Metadata, first_cluster};
use super::volume::Volume;

/// Number of times that contents are loaded which are forgotten before they are used.
const LOADS_MAX: usize = 100;

impl Inode {
    /// Locks the state of a directory for reading, with its contents in memory.
    ///
    /// # Errors
    /// As [`Inode::load`].
    pub(crate) fn read_loaded(&self) -> Result<RwLockReadGuard<'_, State>> {
        for _ in 0..LOADS_MAX {
            let state = self.read();
            if state.contents.is_some() {
                return Ok(state);
            }
            drop(state);
            self.load(&mut self.write())?;
        }
        Err(Errno::ENOMEM)
    }

    /// Returns the current attributes. Those of a directory depend on its contents.
    pub(crate) fn attributes(&self) -> Attributes {
        if self.kind == FileKind::Directory
            && let Ok(state) = self.read_loaded()
        {
            return self.attributes_in(&state);
        }
        self.attributes_in(&self.read())
    }

    /// Returns the inode as the result of a look-up.
    pub(crate) fn found(&self) -> FoundEntry {
        FoundEntry { vnode: profile::vnode(self.to_arc()), attributes: self.attributes() }
    }

    /// Loads the contents of a directory, and its sidecar, unless they are in memory. The caller holds the state locked.
    ///
    /// # Errors
    /// `ENOTDIR`, `EIO`, `ENOMEM`.
    pub(crate) fn load(&self, state: &mut State) -> Result<()> {
        if self.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        if state.contents.is_some() {
            return Ok(());
        }
        let contents = Contents::read(&self.volume.storage, self.extents()?, self.volume.rules)?;
        self.check_visible_sidecar(&contents)?;
        let sidecar = match self.find_sidecar(&contents) {
            Some((slot, entry)) => {
                Some(Sidecar::read(self.volume.access(), &contents, (slot, &entry), self.volume.log_max())?)
            }
            None => None,
        };
        let bytes = contents.memory() + sidecar.as_ref().map_or(0, Sidecar::memory);
        *self.lock_sidecar() = sidecar;
        state.contents = Some(contents);
        self.volume.loaded_bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut loaded = self.volume.lock_loaded();
        loaded.last += 1;
        let entry = (loaded.last, self.to_arc());
        let before = loaded.directories.insert(self.number, entry);
        drop(loaded);
        drop(before);
        Ok(())
    }

    /// Returns where this directory is on the device.
    fn extents(&self) -> Result<Extents> {
        let geometry = self.volume.storage.geometry();
        let mut extents = Extents::default();
        if let Some((offset, size)) = geometry.root_region().filter(|_| self.is_root()) {
            extents.push(offset, size.into());
            return Ok(extents);
        }
        let cluster_size = u64::from(geometry.cluster_size());
        let length_max = self.volume.clusters_of(u64::from(SLOTS_MAX) * ENTRY_SIZE as u64);
        let mut chain = self.lock_chain();
        let runs = chain.runs(self.volume.lock_clusters().table(), &self.volume.storage, length_max)?;
        if runs.is_empty() {
            let first = chain.first();
            let details = format_args!("a directory begins with the cluster {first}, which is not in use");
            return Err(self.volume.storage.damage("start-invalid", details));
        }
        for run in runs {
            let offset = geometry.cluster_offset(run.cluster).ok_or(Errno::EIO)?;
            extents.push(offset, u64::from(run.count) * cluster_size);
        }
        Ok(extents)
    }

    /// Returns slot and entry of the sidecar, if the volume uses sidecars and the directory has one.
    fn find_sidecar(&self, contents: &Contents) -> Option<(u32, Entry)> {
        let slot = contents.find_short(&SIDECAR_NAME, Entry::is_hidden_file).filter(|_| self.volume.has_sidecars)?;
        let entry = contents.entry(slot).filter(|entry| entry.size > 0)?;
        Some((slot, entry))
    }

    /// Checks that the directory has no sidecar that lost its attributes, without which everything in it would be public.
    fn check_visible_sidecar(&self, contents: &Contents) -> Result<()> {
        if !self.volume.has_sidecars {
            return Ok(());
        }
        match has_visible_sidecar(contents, self.volume.access())? {
            false => Ok(()),
            true => {
                let details = format_args!(
                    "a log of Unix metadata, PLYFS.ATR, is not a file with the attributes hidden and system"
                );
                Err(self.volume.storage.damage("sidecar-visible", details))
            }
        }
    }

    /// Returns whether an entry of this directory is a file of this base's own, or the store, which nobody sees. In the store
    /// everything is but the objects.
    pub(crate) fn is_own_file(&self, contents: &Contents, slot: u32) -> bool {
        if self.is_store() {
            return contents.entry(slot).is_some_and(|entry| object_number(&entry).is_none());
        }
        let has_own_name = |entry: &Entry| {
            entry.name == SIDECAR_NAME && self.volume.has_sidecars || entry.name == JOURNAL_NAME && self.is_root()
        };
        let is_own_store = |entry: &Entry| self.is_root() && self.volume.has_sidecars && is_store(entry);
        let is_own = |entry: &Entry| {
            has_own_name(entry) && entry.is_hidden_file() || is_own_store(entry) || self.is_owner_entry(entry)
        };
        contents.entry(slot).is_some_and(|entry| is_own(&entry))
    }

    /// Returns whether this directory has entries that others see.
    pub(crate) fn has_entries(&self, contents: &Contents) -> bool {
        contents.slots_from(0).any(|slot| !self.is_own_file(contents, slot))
    }

    /// Returns the slot of the entry that the caller finds by that name. The contents of the state, which the caller holds locked, were
    /// loaded.
    ///
    /// # Errors
    /// `ENOTDIR`, then `EACCES`, then `ENOENT`.
    pub(crate) fn find_slot(&self, state: &State, caller: &Caller, name: Name<'_>) -> Result<u32> {
        let contents = state.contents()?;
        permissions::check(&state.metadata.protection, caller, permissions::SEARCH)?;
        let units = self.volume.rules.units_to_find(name).ok_or(Errno::ENOENT)?;
        contents.find_wanted(&units, |slot| !self.is_own_file(contents, slot)).ok_or(Errno::ENOENT)
    }

    /// Returns the object of an entry of this directory. The contents of the state, which the caller holds locked, were loaded.
    ///
    /// # Errors
    /// `EIO` for an entry that has its first cluster in common with another one, or with the root directory.
    pub(crate) fn child(&self, state: &State, slot: u32) -> Result<Arc<Inode>> {
        let entry = state.contents()?.entry(slot).ok_or(Errno::ENOENT)?;
        let Some(link) = self.link_number(&entry) else { return self.child_of_entry(state, slot) };
        let object = match self.volume.store() {
            Some(store) => store.stored_object(link)?,
            None => None,
        };
        match object {
            Some(object) => {
                object.note_name(self, slot);
                Ok(object)
            }
            None => self.child_of_entry(state, slot),
        }
    }

    /// Returns the inode that an entry of this directory itself has, as [`Inode::child`].
    ///
    /// # Errors
    /// As [`Inode::child`].
    pub(crate) fn child_of_entry(&self, state: &State, slot: u32) -> Result<Arc<Inode>> {
        let contents = state.contents()?;
        let entry = contents.entry(slot).ok_or(Errno::ENOENT)?;
        let geometry = self.volume.storage.geometry();
        let root_cluster = geometry.root_cluster().filter(|&root| root == first_cluster(&entry, geometry.width()));
        if let Some(root) = root_cluster {
            let details = format_args!("an entry has the first cluster of the root directory, {root}");
            return Err(self.volume.storage.damage("cross-link", details));
        }
        let is_dangling = self.link_number(&entry).is_some();
        let number = self.number_of(slot, &entry);
        if let Some(live) = self.volume.find_live(number) {
            return self.checked_child(live, slot);
        }
        let width = self.volume.storage.geometry().width();
        let cluster = first_cluster(&entry, width);
        let owner = Owner::Slot(slot);
        let mut metadata = {
            let sidecar = self.lock_sidecar();
            let record = sidecar.as_ref().and_then(|sidecar| sidecar.record(owner)).filter(|_| !is_dangling);
            let mut metadata = Metadata::of_entry(&entry, record, self.volume.coding());
            if self.volume.has_metadata()
                && entry.name.is_saved()
                && !Metadata::has_own(&entry, record, &self.volume.entry_metadata)
            {
                metadata.restrict(&self.volume.options);
            }
            metadata
        };
        if is_dangling {
            metadata.protection.mode = 0;
        }
        if inline::has_device_data(metadata.protection.kind) && self.volume.entry_metadata.device_size() != 0 {
            let mut data = [0; inline::DEVICE_SIZE];
            self.volume.access().read(&Mutex::new(Chain::new(cluster)), 0, &mut data)?;
            metadata.device = inline::device_of_data(data);
        }
        let new = NewInode {
            number,
            handle: handle_of(&self.volume, number, self.place(slot), metadata.created),
            metadata,
            link: Some(Link { parent: self.to_arc(), slot, cluster }),
            stored: self.stored_in(contents, &entry),
            is_dangling,
            chain: Chain::new(if self.volume.storage.geometry().contains(cluster) { cluster } else { 0 }),
            size: entry.size.into(),
        };
        let inode = Inode::new(&self.volume, new);
        let found = self.volume.live.find_or_insert(&number, || inode.clone());
        drop(inode);
        self.checked_child(found, slot)
    }

    /// Returns the inode number of an entry of this directory.
    pub(crate) fn number_of(&self, slot: u32, entry: &Entry) -> InodeNumber {
        let width = self.volume.storage.geometry().width();
        let default = self.place(slot).default_number(first_cluster(entry, width));
        self.volume.lock_numbers().number(default)
    }

    fn checked_child(&self, inode: Arc<Inode>, slot: u32) -> Result<Arc<Inode>> {
        if inode.is_in(self, slot) {
            return Ok(inode);
        }
        let details = format_args!("two entries have the cluster {}", inode.number);
        Err(self.volume.storage.damage("cross-link", details))
    }

    /// Makes room for an entry in this directory, whose state the caller holds locked and loaded.
    ///
    /// # Errors
    /// `ENOSPC` for a full directory or volume; `EIO`.
    pub(crate) fn make_room(&self, state: &mut State, prepared: &PreparedEntry) -> Result<()> {
        let is_fixed = self.is_root() && self.volume.storage.geometry().root_region().is_some();
        while !state.contents_mut()?.has_room(prepared) {
            if is_fixed || state.contents()?.capacity() >= SLOTS_MAX {
                return Err(Errno::ENOSPC);
            }
            self.grow(state)?;
        }
        Ok(())
    }

    /// Adds a cluster to this directory.
    fn grow(&self, state: &mut State) -> Result<()> {
        let storage = &self.volume.storage;
        let cluster_size = u64::from(storage.geometry().cluster_size());
        let (last, cluster, length) = {
            let mut chain = self.lock_chain();
            let mut clusters = self.volume.lock_clusters();
            let length = chain.known_length().filter(|&length| length > 0).ok_or(Errno::EIO)?;
            let last = chain.find(clusters.table(), storage, length - 1, 1)?.cluster;
            let extended = chain.extend(&mut clusters, storage, (length, length + 1), Near::Start)?;
            (last, chain.find(clusters.table(), storage, extended - 1, 1)?.cluster, length)
        };
        let offset = storage.geometry().cluster_offset(cluster).ok_or(Errno::EIO)?;
        let zeroed = self.volume.access().zero(
            &self.chain,
            u64::from(length) * cluster_size,
            (u64::from(length) + 1) * cluster_size,
        );
        if let Err(errno) = zeroed {
            self.lock_chain().cut(&mut self.volume.lock_clusters(), storage, length)?;
            return Err(errno);
        }
        self.volume.lock_pending().grown.push(last);
        state.contents_mut()?.grow(offset, cluster_size);
        self.volume.loaded_bytes.fetch_add(cluster_size, Ordering::Relaxed);
        Ok(())
    }
}

impl Volume<Inode> {
    /// Forgets contents of directories, those that were loaded first, until they take no more memory than they may. Called without any
    /// lock held.
    pub(crate) fn forget_contents(&self) {
        let limit = self.options.memory / 2;
        if self.loaded_bytes.load(Ordering::Relaxed) <= limit {
            return;
        }
        let mut loaded: Vec<(u64, Arc<Inode>)> = self.lock_loaded().directories.values().cloned().collect();
        loaded.sort_unstable_by_key(|(order, _)| *order);
        for (_, inode) in loaded {
            if self.loaded_bytes.load(Ordering::Relaxed) <= limit {
                break;
            }
            if forget(&inode) {
                let forgotten = self.lock_loaded().directories.remove(&inode.number);
                drop(forgotten);
            }
        }
    }

    /// Forgets a directory that was removed.
    pub(crate) fn forget_removed(&self, number: InodeNumber) {
        let forgotten = self.lock_loaded().directories.remove(&number);
        drop(forgotten);
    }
}

/// Forgets the contents of a directory, unless they are in use or differ from the disk. Returns whether they are not in memory.
fn forget(inode: &Inode) -> bool {
    let Some(mut state) = inode.try_write() else { return false };
    if state.is_unlinked(inode) {
        return true;
    }
    let mut sidecar = inode.lock_sidecar();
    let is_dirty = state.is_being_written
        || state.contents.as_ref().is_some_and(Contents::is_dirty)
        || sidecar.as_ref().is_some_and(Sidecar::is_dirty);
    if is_dirty {
        return false;
    }
    let bytes = sidecar.as_ref().map_or(0, Sidecar::memory);
    *sidecar = None;
    inode.drop_contents(&mut state, bytes);
    true
}
