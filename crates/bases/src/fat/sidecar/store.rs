//! The sidecar of a directory in memory: its records, and what of them the log on the disk lacks.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use vnode::{Errno, Result, zeros};

use crate::fat::directory::contents::Contents;
use crate::fat::format::{Entry, ShortName};
use crate::fat::links::LinkNumber;
use crate::fat::volume::allocation::Near;
use crate::fat::volume::chain::Chain;
use crate::fat::volume::data::DataAccess;

use super::log::{FRAME_MAX, HEADER_SIZE, MAGIC, ParsedLog, Seed, frame, parse};
use super::matching::match_records;
use super::record::{Identity, LogItem, Record};

/// Name of the log in its directory.
pub(crate) const SIDECAR_NAME: ShortName = ShortName(*b"PLYFS   ATR");

/// Garbage in bytes from which on a log is written anew, if it is also more than half of the log.
const GARBAGE_MIN: u64 = 16 << 10;

/// Memory of a record in bytes besides its encoding.
const RECORD_MEMORY: u64 = 200;

/// Memory of an identity in bytes besides its name.
const IDENTITY_MEMORY: u64 = 60;

/// The object of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    /// The root directory, whose record is in its own log.
    Root,
    /// The entry in this slot.
    Slot(u32),
}

/// The records of a directory.
#[derive(Debug)]
pub(crate) struct Sidecar {
    /// Slot of the log's entry.
    slot: u32,
    chain: Mutex<Chain>,
    /// Maximum size of the log in bytes.
    log_max: u64,
    /// Size of the log's clusters in bytes, which is that of its file.
    allocated: u64,
    /// Checksums of the log depend on it.
    seed: Seed,
    /// Bytes of the log that are in use; 0 if it has to be written anew.
    length: u64,
    /// Something other than zeros may follow what is in use.
    is_torn: bool,
    /// Bytes that changes need which are not in the log.
    reserved: u64,
    /// Length at which garbage is looked for.
    checked_at: u64,
    records: HashMap<Owner, Box<Record>>,
    /// Records that the log lacks.
    dirty: BTreeSet<Owner>,
    /// Removed objects whose entries the disk still has, and the length of the log when they were removed.
    removed: Vec<(Identity, u64)>,
    /// Removed objects whose records may be removed.
    due: Vec<(Identity, u64)>,
    /// Objects that the log has and the directory has not. Their records are removed together with other changes.
    orphans: Vec<(Identity, u64)>,
}

/// Result of [`Sidecar::flush`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flushed {
    /// First cluster of a log that was replaced by another.
    pub(crate) replaced: Option<u32>,
    /// There are changes that must wait for the next synchronization.
    pub(crate) has_more: bool,
}

impl Sidecar {
    /// Reads the log of a directory, whose entry is in a slot of the directory, and which has up to `log_max` bytes.
    ///
    /// # Errors
    /// `EIO`, also for anything else than a log of the known version; `ENOMEM` for a larger log. No record may be missed.
    pub(crate) fn read(
        access: DataAccess<'_>,
        contents: &Contents,
        (slot, entry): (u32, &Entry),
        log_max: u64,
    ) -> Result<Self> {
        if u64::from(entry.size) > log_max {
            return Err(Errno::ENOMEM);
        }
        let geometry = access.storage.geometry();
        let chain = Mutex::new(Chain::new(entry.first_cluster(geometry.width())));
        let cluster_size = u64::from(geometry.cluster_size());
        let allocated = u64::from(entry.size).next_multiple_of(cluster_size);
        let mut log = zeros(entry.size as usize)?;
        access.read(&chain, 0, &mut log)?;
        let Some(ParsedLog { seed, items, end: length, is_torn }) = parse(&log) else {
            let details = format_args!("PLYFS.ATR of a directory is no log of Unix metadata of a known version");
            return Err(access.storage.damage("sidecar-invalid", details));
        };
        // Names of objects in the store have no records; those before them were of others.
        let entries: Vec<(u32, Identity)> = contents
            .slots_from(0)
            .filter(|&other| other != slot)
            .filter(|&slot| {
                contents.entry(slot).is_some_and(|entry| LinkNumber::of_name(&entry, geometry.width()).is_none())
            })
            .filter_map(|slot| Some((slot, identity(contents, slot, access)?)))
            .collect();
        let matched = match_records(items, &entries);
        let own = matched.own.map(|record| (Owner::Root, record));
        let records = matched.by_slot.into_iter().map(|(slot, record)| (Owner::Slot(slot), record)).chain(own);
        Ok(Self {
            slot,
            chain,
            log_max,
            allocated,
            seed,
            length,
            is_torn: is_torn || u64::from(entry.size) != allocated,
            reserved: 0,
            checked_at: length,
            records: records.collect(),
            dirty: BTreeSet::new(),
            removed: Vec::new(),
            due: Vec::new(),
            orphans: matched.orphans.into_iter().map(|identity| (identity, length)).collect(),
        })
    }

    /// Returns an empty log, whose entry will be in that slot.
    ///
    /// # Errors
    /// `ENOSPC`; as [`DataAccess::write`].
    pub(crate) fn create(access: DataAccess<'_>, slot: u32, log_max: u64) -> Result<Self> {
        let runs = access.lock().allocate(access.storage, Near::Start, 1)?;
        let allocated = u64::from(access.storage.geometry().cluster_size());
        let sidecar = Self {
            slot,
            chain: Mutex::new(Chain::of_runs(&runs)),
            log_max,
            allocated,
            seed: Seed::random(),
            length: HEADER_SIZE as u64,
            is_torn: false,
            reserved: 0,
            checked_at: 0,
            records: HashMap::new(),
            dirty: BTreeSet::new(),
            removed: Vec::new(),
            due: Vec::new(),
            orphans: Vec::new(),
        };
        access.zero(&sidecar.chain, 0, allocated)?;
        access.write(&sidecar.chain, 0, &sidecar.seed.header())?;
        Ok(sidecar)
    }

    /// Returns the slot of the log's entry.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// Returns the first cluster and the size of the log's file.
    pub(crate) fn file(&self) -> (u32, u32) {
        let first = self.chain.lock().unwrap_or_else(PoisonError::into_inner).first();
        (first, u32::try_from(self.allocated).unwrap_or(u32::MAX))
    }

    /// Returns the memory that the records take, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let records: u64 = self.records.values().map(|record| RECORD_MEMORY + record.encoded_size(0)).sum();
        let others = [&self.removed, &self.due, &self.orphans].into_iter().flatten();
        records + others.map(|(identity, _)| IDENTITY_MEMORY + 2 * identity.name.len() as u64).sum::<u64>()
    }

    /// Returns whether the log lacks a change, or may soon.
    pub(crate) fn is_dirty(&self) -> bool {
        self.has_changes() || self.reserved > 0
    }

    fn has_changes(&self) -> bool {
        !self.dirty.is_empty() || !self.removed.is_empty() || !self.due.is_empty()
    }

    /// Returns the record of an object.
    pub(crate) fn record(&self, owner: Owner) -> Option<&Record> {
        self.records.get(&owner).map(|record| &**record)
    }

    /// Makes sure that the log has room for a change of `size` bytes more, so that it does not fail later.
    ///
    /// # Errors
    /// `ENOSPC`; as [`DataAccess::write`].
    pub(crate) fn reserve(&mut self, access: DataAccess<'_>, size: u64) -> Result<()> {
        let reserved = self.reserved + size + FRAME_MAX;
        self.grow(access, self.length.max(HEADER_SIZE as u64) + reserved)?;
        self.reserved = reserved;
        Ok(())
    }

    /// Sets the record of an object.
    pub(crate) fn set(&mut self, owner: Owner, record: Box<Record>) {
        if self.records.get(&owner) != Some(&record) {
            self.records.insert(owner, record);
            self.dirty.insert(owner);
        }
    }

    /// Removes the record of an entry, which was the object's by this identity. The log keeps it until the entry is gone from the disk.
    pub(crate) fn remove(&mut self, slot: u32, identity: Option<Identity>) -> Option<Box<Record>> {
        let owner = Owner::Slot(slot);
        self.dirty.remove(&owner);
        let record = self.records.remove(&owner)?;
        self.removed.extend(identity.map(|identity| (identity, self.length)));
        Some(record)
    }

    /// Notes that what was written since the last synchronization may not be stable: the log is written anew before anything follows it.
    pub(crate) fn not_stable(&mut self) {
        (self.length, self.is_torn) = (0, true);
        self.dirty.extend(self.records.keys());
    }

    /// Writes what the log lacks. The entry of the log must be changed to [`Sidecar::file`] together with those of its objects.
    ///
    /// # Errors
    /// As [`DataAccess::write`]. Without space, the changes stay in memory.
    pub(crate) fn flush(&mut self, access: DataAccess<'_>, contents: &Contents) -> Result<Flushed> {
        let mut flushed = Flushed::default();
        if self.has_changes() {
            self.due.append(&mut self.orphans);
            flushed.replaced = if self.has_much_garbage() { self.rewrite(access, contents)? } else { None };
            if flushed.replaced.is_none() {
                self.append(access, contents)?;
            }
        }
        self.due.append(&mut self.removed);
        flushed.has_more = !self.due.is_empty();
        let due: u64 = self.due.iter().map(|(identity, _)| 64 + 3 * identity.name.len() as u64).sum();
        self.reserved = due;
        Ok(flushed)
    }

    fn append(&mut self, access: DataAccess<'_>, contents: &Contents) -> Result<()> {
        let mut bytes = if self.length == 0 { self.seed.header() } else { Vec::new() };
        bytes.extend(self.dirty.iter().flat_map(|&owner| self.frame_of(access, contents, owner, self.seed)));
        let due = self.due.iter().filter(|_| self.length > 0).cloned();
        bytes.extend(due.flat_map(|(identity, end)| frame(&LogItem::Removal(identity, end), self.seed)));
        if let Err(errno) = self.grow(access, self.length + bytes.len() as u64) {
            tracing::debug!("attributes of files in a directory are not stored: {errno}");
            return access.storage.check_storable();
        }
        self.clear_torn(access)?;
        access.write(&self.chain, self.length, &bytes)?;
        self.length += bytes.len() as u64;
        self.dirty.clear();
        self.due.clear();
        Ok(())
    }

    /// Clears what follows the part in use, and makes that stable: nothing there must become an item when a shorter one is written over
    /// its beginning.
    fn clear_torn(&mut self, access: DataAccess<'_>) -> Result<()> {
        if self.is_torn {
            access.zero(&self.chain, self.length, self.allocated)?;
            access.storage.flush()?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Writes all records to new clusters. Returns the first of the old ones; `None` if there are too few.
    fn rewrite(&mut self, access: DataAccess<'_>, contents: &Contents) -> Result<Option<u32>> {
        let seed = Seed::random();
        let frames = self.records.keys().flat_map(|&owner| self.frame_of(access, contents, owner, seed));
        let mut bytes: Vec<u8> = seed.header().into_iter().chain(frames).collect();
        let length = bytes.len() as u64;
        let cluster_size = u64::from(access.storage.geometry().cluster_size());
        let allocated = length.next_multiple_of(cluster_size);
        bytes.resize(allocated as usize, 0);
        let mut chain = Chain::new(0);
        let wanted = (allocated / cluster_size) as u32;
        let extended = chain.extend(&mut access.lock(), access.storage, (0, wanted), Near::Start);
        if extended != Ok(wanted) {
            chain.cut(&mut access.lock(), access.storage, 0)?;
            return Ok(None);
        }
        let chain = Mutex::new(chain);
        if let Err(errno) = access.write(&chain, 0, &bytes) {
            let chain = &mut *chain.lock().unwrap_or_else(PoisonError::into_inner);
            chain.cut(&mut access.lock(), access.storage, 0)?;
            return Err(errno);
        }
        let (old, _) = self.file();
        (self.chain, self.allocated, self.length) = (chain, allocated, length);
        (self.seed, self.is_torn) = (seed, false);
        self.dirty.clear();
        self.due.clear();
        self.removed.clear();
        self.checked_at = 2 * length;
        Ok(Some(old))
    }

    fn has_much_garbage(&mut self) -> bool {
        if self.length < self.checked_at.max(GARBAGE_MIN) {
            return self.length == 0;
        }
        let live: u64 = self.records.values().map(|record| record.encoded_size(32) + FRAME_MAX).sum();
        self.checked_at = self.length + GARBAGE_MIN;
        self.length > 2 * live + GARBAGE_MIN
    }

    fn frame_of(&self, access: DataAccess<'_>, contents: &Contents, owner: Owner, seed: Seed) -> Vec<u8> {
        let identity = match owner {
            Owner::Root => Some(Identity { name: Vec::new(), created: Default::default(), cluster: 0 }),
            Owner::Slot(slot) => identity(contents, slot, access),
        };
        match (identity, self.records.get(&owner)) {
            (Some(identity), Some(record)) => frame(&LogItem::Attributes(identity, record.clone()), seed),
            _ => Vec::new(),
        }
    }

    /// Makes sure that the log has clusters for `size` bytes.
    fn grow(&mut self, access: DataAccess<'_>, size: u64) -> Result<()> {
        if size <= self.allocated {
            return Ok(());
        }
        if size > self.log_max {
            return Err(Errno::ENOSPC);
        }
        let cluster_size = u64::from(access.storage.geometry().cluster_size());
        let used = (self.allocated / cluster_size) as u32;
        let wanted = u32::try_from(size.div_ceil(cluster_size)).map_err(|_| Errno::ENOSPC)?;
        let extended = self.extend(access, (used, wanted));
        if extended.is_err() {
            // The chain must not be longer than the file.
            let chain = self.chain.get_mut().unwrap_or_else(PoisonError::into_inner);
            chain.cut(&mut access.lock(), access.storage, used)?;
        }
        self.allocated = extended?;
        Ok(())
    }

    /// Adds clusters, which are zero, and returns the size of all in bytes. If it fails, some may have been added.
    fn extend(&mut self, access: DataAccess<'_>, (used, wanted): (u32, u32)) -> Result<u64> {
        let chain = self.chain.get_mut().unwrap_or_else(PoisonError::into_inner);
        let length = chain.extend(&mut access.lock(), access.storage, (used, wanted), Near::Start)?;
        if length < wanted {
            return Err(Errno::ENOSPC);
        }
        let allocated = u64::from(length) * u64::from(access.storage.geometry().cluster_size());
        access.zero(&self.chain, self.allocated, allocated)?;
        Ok(allocated)
    }
}

/// Returns whether a directory has a log that is not hidden, as another system leaves it that copies files without their attributes,
/// or that a damaged entry says is a directory.
///
/// # Errors
/// `EIO`.
pub(crate) fn has_visible_sidecar(contents: &Contents, access: DataAccess<'_>) -> Result<bool> {
    let is_visible = |entry: &Entry| !entry.is_hidden_file();
    let entry = contents.find_short(&SIDECAR_NAME, is_visible).and_then(|slot| contents.entry(slot));
    let Some(mut entry) = entry else { return Ok(false) };
    if entry.is_directory() {
        // It has no size, and at least a cluster; one without is no log.
        entry.size = if entry.first_cluster(access.storage.geometry().width()) == 0 { 0 } else { HEADER_SIZE as u32 };
    }
    Ok(read_header(&entry, access)?.starts_with(&MAGIC))
}

/// Returns the first bytes of a file, [`HEADER_SIZE`] unless it is shorter.
///
/// # Errors
/// `EIO`.
pub(crate) fn read_header(entry: &Entry, access: DataAccess<'_>) -> Result<Vec<u8>> {
    let mut header = vec![0; HEADER_SIZE.min(entry.size as usize)];
    let first = entry.first_cluster(access.storage.geometry().width());
    access.read(&Mutex::new(Chain::new(first)), 0, &mut header)?;
    Ok(header)
}

/// Returns what identifies the object of an entry.
pub(crate) fn identity(contents: &Contents, slot: u32, access: DataAccess<'_>) -> Option<Identity> {
    let entry = contents.entry(slot)?;
    let cluster = entry.first_cluster(access.storage.geometry().width());
    Some(Identity { name: contents.recorded_name(slot)?, created: entry.created, cluster })
}
