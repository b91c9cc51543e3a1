//! Contents of a directory: entries by slot and by name, and their changes.

use std::collections::{BTreeMap, HashSet};

use vnode::{Errno, Result, zeros};

use crate::fat::format::{ENTRY_SIZE, Entry, LONG_SLOTS_MAX, ShortName, long_name_slots, names_equal, units_to_name};
use crate::fat::journal::BlockWrite;
use crate::fat::links::{STORE_NAME, is_store};
use crate::fat::names::{NameRules, valid_name};
use crate::fat::volume::storage::Storage;

use super::extents::Extents;
use super::name_index::NameIndex;
use super::scan::{ScannedEntry, scan};
use super::slots::Slots;

/// Memory of an entry in the maps besides its names, in bytes.
const ENTRY_MEMORY: u64 = 40;

/// The slots that a new entry takes, and what is in them.
#[derive(Debug)]
pub(crate) struct PreparedEntry {
    slots: Vec<[u8; ENTRY_SIZE]>,
    units: Vec<u16>,
}

impl PreparedEntry {
    /// Returns the number of slots.
    pub(crate) fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }
}

/// The entries of a directory, without `.`, `..` and the label.
#[derive(Debug)]
pub(crate) struct Contents {
    slots: Slots,
    rules: NameRules,
    /// The first slot of the name of each entry, by the entry's slot.
    entries: BTreeMap<u32, u32>,
    index: NameIndex,
    /// Number of entries that are directories.
    subdirectories: u32,
    /// Number of blocks that became different from the disk since [`Contents::take_newly_dirty`].
    newly_dirty: usize,
}

impl Contents {
    /// Reads a directory.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn read(storage: &Storage, extents: Extents, rules: NameRules) -> Result<Self> {
        let mut bytes = zeros(usize::try_from(extents.length()).map_err(|_| Errno::ENOMEM)?)?;
        let mut done = 0;
        for &(offset, length) in extents.ranges() {
            let part = bytes.get_mut(done..done + length as usize).ok_or(Errno::EIO)?;
            storage.read(offset, part)?;
            done += length as usize;
        }
        Ok(Self::new(bytes, extents, rules))
    }

    /// Returns the contents of a directory of these bytes in these extents.
    pub(crate) fn new(bytes: Vec<u8>, extents: Extents, rules: NameRules) -> Self {
        let mut scanned = Vec::new();
        scan(bytes.as_chunks().0, 0, &mut |entry| scanned.push(entry));
        let mut contents = Self {
            slots: Slots::new(bytes, extents),
            rules,
            entries: BTreeMap::new(),
            index: NameIndex::default(),
            subdirectories: 0,
            newly_dirty: 0,
        };
        let capacity = contents.slots.capacity();
        for entry in scanned.iter().filter(|entry| entry.slot < capacity) {
            contents.index_entry(entry);
        }
        contents
    }

    /// Returns the contents of a directory that was removed.
    pub(crate) fn removed(rules: NameRules) -> Self {
        Self::new(Vec::new(), Extents::default(), rules)
    }

    /// Returns the rules for the names.
    pub(crate) fn rules(&self) -> NameRules {
        self.rules
    }

    /// Returns the memory that the contents take, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.slots.memory() + self.index.memory() + self.entries.len() as u64 * ENTRY_MEMORY
    }

    /// Returns the number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of entries that are directories.
    pub(crate) fn subdirectories(&self) -> u32 {
        self.subdirectories
    }

    /// Returns the slots of the entries from a slot on, in order.
    pub(crate) fn slots_from(&self, slot: u32) -> impl Iterator<Item = u32> {
        self.entries.range(slot..).map(|(&slot, _)| slot)
    }

    /// Returns the slot of the entry with this name, regardless of case.
    pub(crate) fn find(&self, units: &[u16]) -> Option<u32> {
        self.find_wanted(units, |_| true)
    }

    /// Returns the slot of an entry with this name, regardless of case, that `is_wanted` accepts.
    pub(crate) fn find_wanted(&self, units: &[u16], is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let has_name = |slot| self.names(slot).iter().any(|name| names_equal(name, units));
        self.index.find(units, |slot| is_wanted(slot) && has_name(slot))
    }

    /// Returns the slot of an entry with this short name that `is_wanted` accepts.
    pub(crate) fn find_short(&self, name: &ShortName, is_wanted: impl Fn(&Entry) -> bool) -> Option<u32> {
        let is_found = |slot| self.entry(slot).is_some_and(|entry| entry.name == *name && is_wanted(&entry));
        self.find_wanted(&self.rules.dotted_short(name), is_found)
    }

    /// Returns the slot of the store of objects with several names, if this is a root directory that has one.
    pub(crate) fn find_store(&self) -> Option<u32> {
        self.find_short(&STORE_NAME, is_store)
    }

    /// Returns an entry.
    pub(crate) fn entry(&self, slot: u32) -> Option<Entry> {
        self.entries.contains_key(&slot).then(|| self.slots.get(slot).map(Entry::decode))?
    }

    /// Returns the code units of the name of an entry as records have it: the long name, or the short one, whatever the rules are by
    /// which it is shown.
    pub(crate) fn recorded_name(&self, slot: u32) -> Option<Vec<u16>> {
        let scanned = self.scanned(slot)?;
        Some(scanned.long_name.unwrap_or_else(|| scanned.entry.name.neutral_units()))
    }

    /// Returns the name of an entry as it is shown. An entry whose long name is no name of one component, or has too many bytes,
    /// is shown by its short name; `None` if that is none either.
    pub(crate) fn shown_name(&self, slot: u32) -> Option<Vec<u8>> {
        let scanned = self.scanned(slot)?;
        let long = scanned.long_name.and_then(|units| valid_name(units_to_name(&units)));
        let short = || valid_name(units_to_name(&self.rules.shown_short(&scanned.entry.name, scanned.entry.case)));
        long.or_else(short)
    }

    /// Changes an entry, except for its name.
    pub(crate) fn set_entry(&mut self, slot: u32, change: impl FnOnce(&mut Entry)) {
        if let Some(mut entry) = self.entry(slot) {
            let (name, case) = (entry.name, entry.case);
            self.subdirectories -= u32::from(entry.is_directory());
            change(&mut entry);
            self.subdirectories += u32::from(entry.is_directory());
            (entry.name, entry.case) = (name, case);
            self.newly_dirty += self.slots.set(slot, &entry.encode());
        }
    }

    /// Returns the slots of a new entry with this name, which does not exist yet. The short name of `entry` is chosen here.
    ///
    /// # Errors
    /// `ENOSPC` if all short names are taken.
    pub(crate) fn prepare(&self, units: &[u16], entry: Entry) -> Result<PreparedEntry> {
        self.prepare_except(units, entry, None)
    }

    /// Returns the slots of a new entry, as [`Contents::prepare`], whose names may be those of the entry in the slot `replaced`.
    ///
    /// # Errors
    /// As [`Contents::prepare`].
    pub(crate) fn prepare_except(
        &self,
        units: &[u16],
        mut entry: Entry,
        replaced: Option<u32>,
    ) -> Result<PreparedEntry> {
        let mut is_taken = |name: &ShortName| {
            let found = self.find(&self.rules.dotted_short(name));
            found.is_some_and(|slot| Some(slot) != replaced)
        };
        let generated = ShortName::generate(units, self.rules.page, &mut is_taken).ok_or(Errno::ENOSPC)?;
        (entry.name, entry.case) = (generated.name, generated.case);
        // A short name is enough if it is shown as the name that was requested.
        let needs_long_name = generated.needs_long_name || self.rules.shown_short(&entry.name, entry.case) != units;
        let mut slots = Vec::with_capacity(LONG_SLOTS_MAX + 1);
        if needs_long_name {
            slots.extend(long_name_slots(units, &entry.name).iter().map(|slot| slot.encode()));
        }
        slots.push(entry.encode());
        Ok(PreparedEntry { slots, units: units.to_vec() })
    }

    /// Returns the slots of a new entry that has only this short name.
    pub(crate) fn prepare_short(&self, entry: Entry) -> PreparedEntry {
        PreparedEntry { slots: vec![entry.encode()], units: self.rules.dotted_short(&entry.name) }
    }

    /// Returns whether there is room for a new entry without growing.
    pub(crate) fn has_room(&mut self, prepared: &PreparedEntry) -> bool {
        self.slots.find_free(prepared.slot_count()).is_some()
    }

    /// Returns the number of slots that there is room for.
    pub(crate) fn capacity(&self) -> u32 {
        self.slots.capacity()
    }

    /// Adds an entry, for which there is room, and returns its slot.
    ///
    /// # Errors
    /// `ENOSPC` without room.
    pub(crate) fn insert(&mut self, prepared: &PreparedEntry) -> Result<u32> {
        let first = self.slots.find_free(prepared.slot_count()).ok_or(Errno::ENOSPC)?;
        self.newly_dirty += self.slots.fill(first, &prepared.slots);
        let mut slot = first;
        scan(&prepared.slots, first, &mut |entry| slot = entry.slot);
        self.entries.insert(slot, first);
        self.subdirectories += u32::from(self.is_directory(slot));
        self.index_names(slot, &prepared.units);
        Ok(slot)
    }

    /// Removes an entry with its long name.
    pub(crate) fn remove(&mut self, slot: u32) {
        for name in self.names(slot) {
            self.index.remove(&name, slot);
        }
        self.subdirectories -= u32::from(self.is_directory(slot));
        if let Some(first) = self.entries.remove(&slot) {
            self.newly_dirty += self.slots.delete(first, slot);
        }
    }

    /// Sets the first cluster of the entry `..`, which is the second slot of every directory but the root.
    pub(crate) fn set_parent(&mut self, change: impl FnOnce(&mut Entry)) {
        const SLOT: u32 = 1;
        let Some(mut entry) = self.slots.get(SLOT).map(Entry::decode) else { return };
        if entry.name == ShortName::DOT_DOT {
            change(&mut entry);
            self.newly_dirty += self.slots.set(SLOT, &entry.encode());
        }
    }

    /// Adds room at the end, which is zero on the device.
    pub(crate) fn grow(&mut self, offset: u64, length: u64) {
        self.slots.grow(offset, length);
    }

    /// Returns whether any block differs from the disk.
    pub(crate) fn is_dirty(&self) -> bool {
        self.slots.is_dirty()
    }

    /// Returns the number of blocks that became different from the disk since the last call.
    pub(crate) fn take_newly_dirty(&mut self) -> usize {
        std::mem::take(&mut self.newly_dirty)
    }

    /// Returns the blocks that differ from the disk, which count as written from here on.
    pub(crate) fn take_changes(&mut self) -> Vec<BlockWrite> {
        self.newly_dirty = 0;
        self.slots.take_changes()
    }

    /// Notes that blocks which were to be written are not on the disk.
    pub(crate) fn not_written(&mut self, offsets: &HashSet<u64>) {
        self.newly_dirty += self.slots.not_written(offsets);
    }

    /// Returns the entry in a slot with its long name.
    fn scanned(&self, slot: u32) -> Option<ScannedEntry> {
        let first = *self.entries.get(&slot)?;
        let slots: Vec<[u8; ENTRY_SIZE]> = (first..=slot).filter_map(|slot| self.slots.get(slot).copied()).collect();
        let mut found = None;
        scan(&slots, first, &mut |entry| found = Some(entry));
        found
    }

    /// Returns all names by which an entry is found.
    fn names(&self, slot: u32) -> Vec<Vec<u16>> {
        let Some(scanned) = self.scanned(slot) else { return Vec::new() };
        self.names_of(&scanned)
    }

    fn names_of(&self, scanned: &ScannedEntry) -> Vec<Vec<u16>> {
        let entry = &scanned.entry;
        let shown = match &scanned.long_name {
            Some(units) => units.clone(),
            None => self.rules.shown_short(&entry.name, entry.case),
        };
        vec![shown, self.rules.dotted_short(&entry.name)]
    }

    fn is_directory(&self, slot: u32) -> bool {
        self.entry(slot).is_some_and(|entry| entry.is_directory())
    }

    fn index_entry(&mut self, scanned: &ScannedEntry) {
        self.entries.insert(scanned.slot, scanned.first);
        self.subdirectories += u32::from(scanned.entry.is_directory());
        for name in self.names_of(scanned) {
            self.index.insert(&name, scanned.slot);
        }
    }

    fn index_names(&mut self, slot: u32, units: &[u16]) {
        self.index.insert(units, slot);
        for name in self.names(slot) {
            self.index.insert(&name, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fat::format::EntryAttributes;
    use crate::fat::names::Translation;

    fn empty(translation: Translation) -> Contents {
        let mut extents = Extents::default();
        extents.push(0, 4096);
        Contents::new(vec![0; 4096], extents, NameRules { translation, ..Default::default() })
    }

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn add(contents: &mut Contents, name: &str) -> u32 {
        let entry = Entry::new(ShortName::DOT, EntryAttributes::ARCHIVE);
        let prepared = contents.prepare(&units(name), entry).unwrap();
        assert!(contents.has_room(&prepared));
        contents.insert(&prepared).unwrap()
    }

    fn shown(contents: &Contents) -> Vec<String> {
        let name = |slot| String::from_utf8(contents.shown_name(slot).unwrap()).unwrap();
        contents.slots_from(0).map(name).collect()
    }

    #[test]
    fn entries_are_found_by_long_and_short_names_until_they_are_removed() {
        for translation in [Translation::Stored, Translation::Lower, Translation::Joined] {
            let mut contents = empty(translation);
            let names = ["A long name.txt", "a", "UPPER", "Mixed.Txt", "a long name 2.txt", "lower.txt", ".hidden"];
            let slots: Vec<u32> = names.iter().map(|name| add(&mut contents, name)).collect();
            assert_eq!(shown(&contents), names, "{translation:?}");
            assert_eq!(contents.find(&units("a LONG NAME.TXT")), Some(slots[0]));
            assert_eq!(contents.find(&units("ALONGN~1.TXT")), Some(slots[0]));
            assert_eq!(contents.find(&units("alongn~2.txt")), Some(slots[4]));
            assert_eq!(contents.find(&units("mixed.TXT")), Some(slots[3]));
            contents.remove(slots[0]);
            assert_eq!([contents.find(&units("A long name.txt")), contents.find(&units("ALONGN~1.TXT"))], [None; 2]);
            assert_eq!(contents.len(), names.len() - 1);
            assert_eq!(add(&mut contents, "b long name.txt"), slots[0], "the slots are used again");
        }
    }

    #[test]
    fn names_of_which_only_the_case_is_stored_take_one_slot() {
        let mut contents = empty(Translation::Stored);
        assert_eq!([add(&mut contents, "readme.txt"), add(&mut contents, "MAKEFILE")], [0, 1]);
        let mut contents = empty(Translation::Lower);
        assert_eq!([add(&mut contents, "readme.txt"), add(&mut contents, "MAKEFILE")], [0, 2]);
    }

    #[test]
    fn only_changed_blocks_are_written() {
        let mut contents = empty(Translation::Stored);
        for number in 0..20 {
            add(&mut contents, &format!("F{number}"));
        }
        assert_eq!((contents.take_newly_dirty(), contents.take_changes().len()), (2, 2));
        contents.set_entry(17, |entry| entry.size = 9);
        contents.set_entry(17, |entry| entry.size = 9);
        assert_eq!((contents.take_newly_dirty(), contents.is_dirty()), (1, true));
        assert_eq!(contents.take_changes()[0].offset, 512);
        assert_eq!(contents.entry(17).unwrap().size, 9);
    }
}
