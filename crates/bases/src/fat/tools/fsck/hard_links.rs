//! Hard links: that the store has the number of names of each object, and that each object has a name.

use std::collections::BTreeMap;

use super::checker::Checker;
use super::options::FsckMode;
use super::problem::Problem;
use super::stored_links::{StoredLinks, StoredObject};
use crate::fat::format::{CaseBits, Entry, EntryAttributes, EntrySlot, SAVED_FILE};
use crate::fat::links::{LinkNumber, NAMES_MAX, STORE_NAME, is_store, names_of, object_number, set_names};
use crate::fat::tools::directory::{DirectoryRange, DirectoryStart};
use crate::fat::tools::error::ToolError;

impl Checker<'_> {
    /// Reads the store, so that names of its objects can be counted: any others do not matter, and take no memory.
    pub(crate) fn read_store(&mut self) -> Result<(), ToolError> {
        let Some(range) = self.find_store()? else { return Ok(()) };
        let mut links = StoredLinks { range: Some(range), ..StoredLinks::default() };
        let mut counts = BTreeMap::new();
        let mut reader = range.reader();
        while let Some(slot) = reader.next(&mut self.volume)? {
            let entry = match EntrySlot::decode(&slot.bytes) {
                EntrySlot::End => break,
                EntrySlot::Entry(entry) => entry,
                _ => continue,
            };
            if let Some(number) = object_number(&entry) {
                let object = StoredObject { entry, count_position: None, stored: None, names: 0 };
                links.objects.entry(number.0).or_insert(object);
            } else {
                counts.entry(entry.name).or_insert((slot.position, names_of(&entry)));
            }
        }
        for (&number, object) in &mut links.objects {
            if let Some(&(position, names)) = counts.get(&LinkNumber(number).count_name()) {
                (object.count_position, object.stored) = (Some(position), names);
            }
        }
        self.links = links;
        Ok(())
    }

    fn find_store(&mut self) -> Result<Option<DirectoryRange>, ToolError> {
        let mut reader = self.root_range.reader();
        while let Some(slot) = reader.next(&mut self.volume)? {
            match EntrySlot::decode(&slot.bytes) {
                EntrySlot::End => break,
                EntrySlot::Entry(entry) if is_store(&entry) => {
                    let start = entry.first_cluster(self.volume.geometry.width());
                    let is_there = self.volume.geometry.contains(start);
                    let range = DirectoryRange::whole(DirectoryStart::Cluster(start), &self.volume.geometry);
                    return Ok(is_there.then_some(range));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Counts an entry of a directory if it is a name of an object in the store.
    pub(crate) fn count_name(&mut self, directory: DirectoryStart, entry: &Entry) {
        let is_store = self.links.range.is_none_or(|store| store.start == directory);
        let number = LinkNumber::of_name(entry, self.volume.geometry.width());
        if let Some(number) = number.filter(|_| !is_store && !self.is_dosfs(entry))
            && let Some(object) = self.links.objects.get_mut(&number.0)
        {
            object.names = object.names.saturating_add(1).min(NAMES_MAX);
        }
    }

    /// Compares the numbers of names with those that were found. If the tree is not whole, names may be missing, and only numbers that are
    /// too low are reported: an object is removed with the last name that is counted.
    pub(crate) fn check_hard_links(&mut self, is_whole: bool) -> Result<(), ToolError> {
        if !is_whole && self.options.mode != FsckMode::Check {
            return Ok(());
        }
        let counted = std::mem::take(&mut self.links.objects);
        // Repairs may have moved the entries.
        self.read_store()?;
        for (number, object) in std::mem::take(&mut self.links.objects) {
            let Some(names) = counted.get(&number).map(|object| object.names) else { continue };
            let is_higher = names > object.stored.unwrap_or(NAMES_MAX);
            if object.stored != Some(names) && (is_higher || is_whole) {
                self.check_names_of(LinkNumber(number), &object, names)?;
            }
        }
        Ok(())
    }

    /// Reports a wrong number of names.
    fn check_names_of(&mut self, number: LinkNumber, object: &StoredObject, names: u32) -> Result<(), ToolError> {
        let [store, name] =
            [STORE_NAME, number.object_name()].map(|name| name.decode(self.options.page, CaseBits::default()));
        let problem = match names {
            0 => Problem::HardLinkNameless,
            names => Problem::HardLinkCount(object.stored, names),
        };
        let repair = &mut |checker: &mut Self| match names {
            0 => checker.give_name(number, object),
            names => checker.store_count(number, object, names),
        };
        self.found(problem, Some(&format!("/{store}/{name}")), Vec::new(), repair).map(drop)
    }

    /// Gives an object a name in the root directory.
    fn give_name(&mut self, number: LinkNumber, object: &StoredObject) -> Result<(), ToolError> {
        self.store_count(number, object, 1)?;
        self.volume.flush()?;
        let width = self.volume.geometry.width();
        let saved = self.save_entry(SAVED_FILE, EntryAttributes::ARCHIVE, 0, 0)?;
        self.edit_entry(saved.position, &|entry| number.store(entry, width))?;
        self.report.files += 1;
        Ok(())
    }

    /// Stores the number of names of an object, in a new entry if there is none.
    fn store_count(&mut self, number: LinkNumber, object: &StoredObject, names: u32) -> Result<(), ToolError> {
        if let Some(position) = object.count_position {
            return self.edit_entry(position, &|entry| set_names(entry, names));
        }
        let Some(mut range) = self.links.range else { return Ok(()) };
        let free = self.volume.free_slots(&mut range, 1, &[], Some(&mut self.used))?;
        let position = *free.first().ok_or(ToolError::DirectoryFull)?;
        self.links.range = Some(range);
        self.volume.write_slots(&range, &[(position, number.count_entry(names, &object.entry).encode())])
    }
}
