//! Creates objects and names: create, mkdir, mknod, symlink, tmpfile, link.

use std::sync::{Arc, Mutex};

use vnode::InodeNumber;
use vnode::{
    Caller, Created, Creation, Device, Entry as FoundEntry, Errno, FileKind, Name, Result, Timestamp, VnodeRef,
};

use crate::fat::directory::contents::PreparedEntry;
use crate::fat::entry_metadata::{EntryMetadata, inline};
use crate::fat::format::{CaseBits, ENTRY_SIZE, Entry, EntryAttributes, ShortName, names_equal};
use crate::fat::journal::JOURNAL_NAME;
use crate::fat::links::STORE_NAME;
use crate::fat::sidecar::store::{Owner, SIDECAR_NAME};
use crate::fat::volume::allocation::Near;
use crate::fat::volume::chain::Chain;
use crate::unix::creation::{Inherited, check_device, check_target, inherit};

use super::changing::Change;
use super::file::open_new_file;
use super::handles::handle_of;
use super::inode::{Inode, Link, NewInode, State};
use super::metadata::{Metadata, created_mode};
use super::numbers::EntryLocation;
use super::volume::Volume;

/// What a new object is.
pub(crate) struct NewObject<'a> {
    pub(crate) kind: FileKind,
    pub(crate) mode: u32,
    pub(crate) device: Device,
    /// Target of a symlink.
    pub(crate) target: &'a [u8],
}

impl NewObject<'_> {
    fn file(mode: u32) -> Self {
        Self { kind: FileKind::Regular, mode, device: Device::default(), target: &[] }
    }
}

/// A new object before it has a name.
pub(crate) struct Unnamed {
    pub(crate) metadata: Metadata,
    pub(crate) chain: Chain,
    pub(crate) size: u64,
    pub(crate) number: InodeNumber,
}

impl Unnamed {
    /// Returns the entry of the object, without a name.
    fn entry(&self, volume: &Volume<Inode>) -> Entry {
        let mut entry = Entry::new(ShortName::DOT, EntryAttributes::default());
        self.metadata.store(&mut entry, volume.coding());
        entry.set_first_cluster(volume.storage.geometry().width(), self.chain.first());
        entry.size = self.size as u32;
        entry
    }
}

impl Inode {
    /// Creates and opens a regular file, or opens an existing one.
    pub(crate) fn create_file(
        &self,
        change: &Change<'_>,
        caller: &Caller,
        name: Name<'_>,
        how: &Creation,
    ) -> Result<FileCreation> {
        self.volume.number_owners(caller.uid, caller.gid)?;
        let mut state = self.write();
        self.load(&mut state)?;
        match self.find_slot(&state, caller, name) {
            Ok(slot) => {
                let old = self.child(&state, slot)?;
                return if how.flags.is_exclusive() { Err(Errno::EEXIST) } else { Ok(FileCreation::Existing(old)) };
            }
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        let inode = self.add(change, &mut state, caller, name, &NewObject::file(how.mode))?;
        Ok(FileCreation::New(Created { entry: inode.found(), file: open_new_file(&inode, how.flags) }))
    }

    /// Creates an object with a name.
    pub(crate) fn create_named(
        &self,
        change: &Change<'_>,
        caller: &Caller,
        name: Name<'_>,
        new: &NewObject<'_>,
    ) -> Result<FoundEntry> {
        if new.kind == FileKind::Symlink {
            check_target(new.target)?;
        }
        self.volume.number_owners(caller.uid, caller.gid)?;
        let mut state = self.write();
        self.load(&mut state)?;
        match self.find_slot(&state, caller, name) {
            Ok(_) => return Err(Errno::EEXIST),
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        state.check_creation(self, caller)?;
        check_device(caller, new.kind, new.device)?;
        Ok(self.add(change, &mut state, caller, name, new)?.found())
    }

    /// Creates and opens an unnamed file.
    pub(crate) fn create_unnamed(&self, _change: &Change<'_>, caller: &Caller, how: &Creation) -> Result<Created> {
        self.volume.number_owners(caller.uid, caller.gid)?;
        let state = self.read_loaded()?;
        state.check_creation(self, caller)?;
        let new = NewObject::file(how.mode);
        let unnamed = self.make(self.new_metadata(&state, caller, &new)?, &new)?;
        let place = EntryLocation { directory: 0, slot: 0 };
        let handle = handle_of(&self.volume, unnamed.number, place, unnamed.metadata.created);
        let Unnamed { metadata, chain, size, number } = unnamed;
        let (link, stored, is_dangling) = (None, None, false);
        let inode =
            Inode::new(&self.volume, NewInode { number, handle, metadata, link, stored, is_dangling, chain, size });
        inode.write().is_linkable = !how.flags.is_exclusive();
        self.volume.live.insert(number, &inode);
        Ok(Created { entry: inode.found(), file: open_new_file(&inode, how.flags) })
    }

    /// Gives an object a name in this directory: its first one, or another.
    pub(crate) fn add_link_to(
        &self,
        change: &Change<'_>,
        caller: &Caller,
        target: &VnodeRef,
        name: Name<'_>,
    ) -> Result<FoundEntry> {
        let target = self.of_same_volume(target)?.to_arc();
        if !target.read().is_unlinked(&target) {
            return self.add_name(change, caller, &target, name);
        }
        let mut state = self.write();
        self.load(&mut state)?;
        match self.find_slot(&state, caller, name) {
            Ok(_) => return Err(Errno::EEXIST),
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        state.check_creation(self, caller)?;
        if target.kind == FileKind::Directory {
            return Err(Errno::EPERM);
        }
        let mut linked = target.write();
        if linked.link.is_some() {
            // Another thread has given it its first one.
            drop((linked, state));
            return self.add_name(change, caller, &target, name);
        }
        if !linked.is_linkable {
            return Err(Errno::ENOENT);
        }
        let units = self.check_new_name(&state, name)?;
        self.reserve_record(&mut state, self.record_size(&linked.metadata))?;
        linked.metadata.times.changed();
        let mut entry = Entry::new(ShortName::DOT, EntryAttributes::default());
        linked.metadata.store(&mut entry, self.volume.coding());
        let prepared = state.contents()?.prepare(&units, entry)?;
        self.make_room(&mut state, &prepared)?;
        let slot = self.insert(&mut state, &prepared, (&linked.metadata, 0))?;
        linked.is_linkable = false;
        let link = Link { parent: self.to_arc(), slot, cluster: 0 };
        self.volume.rebind(target.number, None, Some(link.default_number()));
        target.set_link(&mut linked, Some(link));
        target.mark_dirty(&mut linked);
        drop(linked);
        Ok(target.found())
    }

    /// Creates an object in this directory, whose state the caller holds locked and loaded, under a name that does not exist yet.
    pub(crate) fn add(
        &self,
        _change: &Change<'_>,
        state: &mut State,
        caller: &Caller,
        name: Name<'_>,
        new: &NewObject<'_>,
    ) -> Result<Arc<Inode>> {
        state.check_creation(self, caller)?;
        let units = self.check_new_name(state, name)?;
        let metadata = self.new_metadata(state, caller, new)?;
        self.reserve_record(state, self.record_size(&metadata))?;
        // Room first: a directory can become larger without harm, but nothing may fail once the object exists.
        let longest = state.contents()?.prepare(&units, Entry::new(ShortName::DOT, EntryAttributes::default()))?;
        self.make_room(state, &longest)?;
        let unnamed = self.make(metadata, new)?;
        let prepared = state.contents()?.prepare(&units, unnamed.entry(&self.volume))?;
        let slot = self.insert(state, &prepared, (&unnamed.metadata, unnamed.size))?;
        Ok(self.name_object(unnamed, slot))
    }

    /// Gives a new object the entry in a slot of this directory, which is that of [`Unnamed::entry`].
    fn name_object(&self, unnamed: Unnamed, slot: u32) -> Arc<Inode> {
        let Unnamed { metadata, chain, size, number } = unnamed;
        let cluster = chain.first();
        let link = Link { parent: self.to_arc(), slot, cluster };
        let default = link.default_number();
        let handle = handle_of(&self.volume, number, self.place(slot), metadata.created);
        let (link, stored, is_dangling) = (Some(link), None, false);
        let inode =
            Inode::new(&self.volume, NewInode { number, handle, metadata, link, stored, is_dangling, chain, size });
        self.volume.live.insert(number, &inode);
        self.volume.rebind(number, None, Some(default));
        inode
    }

    /// Makes the whiteout that a rename is to leave in this directory, whose state the caller holds locked and loaded, and room for its
    /// record. Its owner has a number.
    ///
    /// # Errors
    /// `ENOSPC`, `EPERM`, `EIO`, `ENOMEM`.
    pub(crate) fn make_whiteout(&self, state: &mut State, caller: &Caller) -> Result<Unnamed> {
        let new = NewObject { kind: FileKind::CharacterDevice, mode: 0, device: Device::default(), target: &[] };
        let metadata = self.new_metadata(state, caller, &new)?;
        self.reserve_record(state, self.record_size(&metadata))?;
        self.make(metadata, &new)
    }

    /// Makes an entry of this directory, whose object has got another one, that of a whiteout. Its name stays.
    pub(crate) fn leave_whiteout(&self, state: &mut State, slot: u32, whiteout: Unnamed) -> Result<()> {
        let new = whiteout.entry(&self.volume);
        state.contents_mut()?.set_entry(slot, |entry| *entry = new);
        if let Some(sidecar) = self.lock_sidecar().as_mut() {
            let record = whiteout.metadata.record(whiteout.size, &self.volume.options);
            sidecar.set(Owner::Slot(slot), Box::new(record));
        }
        drop(self.name_object(whiteout, slot));
        state.metadata.times.modified();
        self.metadata_changed(state);
        self.mark_contents_dirty(state);
        Ok(())
    }

    /// Inserts an entry into this directory, with the record of its object, which has a size in bytes.
    pub(crate) fn insert(
        &self,
        state: &mut State,
        prepared: &PreparedEntry,
        (metadata, size): (&Metadata, u64),
    ) -> Result<u32> {
        let slot = state.contents_mut()?.insert(prepared)?;
        if let Some(sidecar) = self.lock_sidecar().as_mut() {
            sidecar.set(Owner::Slot(slot), Box::new(metadata.record(size, &self.volume.options)));
        }
        state.metadata.times.modified();
        self.metadata_changed(state);
        self.mark_contents_dirty(state);
        Ok(slot)
    }

    /// Returns the code units of a name that is created in this directory.
    ///
    /// # Errors
    /// `EINVAL`, `ENAMETOOLONG`; `EPERM` for a name of this base's own files.
    pub(crate) fn check_new_name(&self, _state: &State, name: Name<'_>) -> Result<Vec<u16>> {
        let units = self.volume.rules.units_to_create(name)?;
        if self.is_reserved_name(&units) { Err(Errno::EPERM) } else { Ok(units) }
    }

    /// Returns whether a name in this directory, in code units, is one of this base's own files, as it is stored or shown. Also where no
    /// such file is used: a later mount would take the file for its own.
    pub(crate) fn is_reserved_name(&self, units: &[u16]) -> bool {
        let rules = self.volume.rules;
        let is_own = |own: &ShortName| {
            let names = [rules.dotted_short(own), rules.shown_short(own, CaseBits::default())];
            names.iter().any(|name| names_equal(name, units))
        };
        let is_of_root = || is_own(&JOURNAL_NAME) || is_own(&STORE_NAME);
        is_own(&SIDECAR_NAME) || self.is_root() && is_of_root() || self.is_owner_name(units)
    }

    /// Returns the metadata of a new object in this directory.
    fn new_metadata(&self, state: &State, caller: &Caller, new: &NewObject<'_>) -> Result<Metadata> {
        let options = &self.volume.options;
        let directory = &state.metadata.protection;
        let (inherited, uid) = match self.volume.has_metadata() {
            true => (inherit(directory, caller, new.kind, new.mode), caller.uid),
            false if !matches!(new.kind, FileKind::Regular | FileKind::Directory) => return Err(Errno::EPERM),
            false => {
                let mode = created_mode(new.mode & !caller.umask, new.kind, options);
                (Inherited { mode, gid: options.gid, access_acl: None, default_acl: None }, options.uid)
            }
        };
        if self.volume.entry_metadata.is_used() && !self.volume.entry_metadata.can_store(uid, inherited.gid, new.device)
        {
            return Err(Errno::EPERM);
        }
        let created = self.volume.stamps.next(Timestamp::now());
        let mut metadata = Metadata::new(inherited.protection(new.kind, uid), new.device, created, options);
        self.volume.round_times(&mut metadata);
        Ok(metadata)
    }

    /// Makes a new object without a name in this directory, with its first data.
    pub(crate) fn make(&self, metadata: Metadata, new: &NewObject<'_>) -> Result<Unnamed> {
        let data = match new.kind {
            FileKind::Directory => self.dot_entries(&metadata),
            FileKind::Symlink => new.target.to_vec(),
            kind if inline::has_device_data(kind) && self.volume.entry_metadata.device_size() != 0 => {
                inline::device_data(new.device).to_vec()
            }
            _ => {
                let number = self.volume.new_number()?;
                return Ok(Unnamed { metadata, chain: Chain::new(0), size: 0, number });
            }
        };
        let storage = &self.volume.storage;
        let wanted = self.volume.clusters_of(data.len() as u64).max(1);
        let mut chain = Chain::new(0);
        let length = chain.extend(&mut self.volume.lock_clusters(), storage, (0, wanted), Near::Start)?;
        let cluster = chain.first();
        let chain = Mutex::new(chain);
        let written = if length < wanted { Err(Errno::ENOSPC) } else { self.write_first(new, &chain, data.clone()) };
        let mut chain = chain.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Err(errno) = written {
            chain.cut(&mut self.volume.lock_clusters(), storage, 0)?;
            return Err(errno);
        }
        let number = self.volume.new_number_of_cluster(cluster);
        let size = if new.kind == FileKind::Directory { 0 } else { data.len() as u64 };
        Ok(Unnamed { metadata, chain, size, number })
    }

    /// Writes the first data of an object; a directory is zero after it.
    fn write_first(&self, new: &NewObject<'_>, chain: &Mutex<Chain>, mut data: Vec<u8>) -> Result<()> {
        if new.kind == FileKind::Directory {
            let cluster = {
                let mut chain = chain.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let first = chain.first();
                chain.runs(self.volume.lock_clusters().table(), &self.volume.storage, 1)?;
                first
            };
            let width = self.volume.storage.geometry().width();
            if let Some(bytes) = data.first_chunk_mut::<ENTRY_SIZE>() {
                let mut dot = Entry::decode(bytes);
                dot.set_first_cluster(width, cluster);
                *bytes = dot.encode();
            }
            data.resize(self.volume.storage.geometry().cluster_size() as usize, 0);
        }
        self.volume.access().write(chain, 0, &data)
    }

    /// Returns the entries `.`, which lacks its cluster, and `..` of a new directory in this one.
    fn dot_entries(&self, metadata: &Metadata) -> Vec<u8> {
        let entry = |name, cluster| {
            let mut entry = Entry::new(name, EntryAttributes::DIRECTORY);
            metadata.store(&mut entry, (&self.volume.options, &EntryMetadata::None));
            entry.attributes = EntryAttributes::DIRECTORY;
            entry.set_first_cluster(self.volume.storage.geometry().width(), cluster);
            entry.encode()
        };
        [entry(ShortName::DOT, 0), entry(ShortName::DOT_DOT, self.cluster_as_parent())].concat()
    }
}

/// Result of [`Inode::create_file`].
pub(crate) enum FileCreation {
    /// The file was created, and is open.
    New(Created),
    /// The name exists.
    Existing(Arc<Inode>),
}
