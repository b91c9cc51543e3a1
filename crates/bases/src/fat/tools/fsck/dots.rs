//! The entries of a directory for itself and for the directory above.

use super::checker::Checker;
use super::context::{DirectoryContext, SuspendedAbove};
use super::problem::Problem;
use crate::fat::format::{DosDateTime, ENTRY_SIZE, Entry, EntryAttributes, EntrySlot, ShortName};
use crate::fat::tools::directory::{DirectoryRange, DirectoryStart, EntryReader, PositionedSlot};
use crate::fat::tools::error::ToolError;

/// A long name has 20 slots at most, and its entry one.
const GROUP_MAX: usize = 21;

impl Checker<'_> {
    /// Checks the first two entries of a directory other than the root.
    pub(crate) fn check_dots(&mut self, context: &mut DirectoryContext) -> Result<(), ToolError> {
        let expected = [
            (ShortName::DOT, context.range.start.cluster(), Problem::DotWrong, Problem::DotMissing),
            (ShortName::DOT_DOT, context.parent, Problem::DotDotWrong, Problem::DotDotMissing),
        ];
        let slots = self.read_slots(context, 2)?;
        for (index, (name, cluster, wrong, missing)) in expected.into_iter().enumerate() {
            let entry = slots.get(index).and_then(|slot| named_entry(slot, name).map(|entry| (slot.position, entry)));
            match entry {
                Some((position, entry)) => self.check_dot(context, position, &entry, cluster, wrong)?,
                None => {
                    let path = context.shown().to_owned();
                    let repair = &mut |checker: &mut Self| checker.create_dots(context);
                    self.found(missing, Some(&path), Vec::new(), repair)?;
                }
            }
        }
        Ok(())
    }

    fn check_dot(
        &mut self,
        context: &DirectoryContext,
        position: u64,
        entry: &Entry,
        cluster: u32,
        wrong: Problem,
    ) -> Result<(), ToolError> {
        let width = self.volume.geometry.width();
        let is_wrong = !entry.is_directory() || entry.first_cluster(width) != cluster || entry.size != 0;
        let (own, stored) = (context.range.start.cluster(), entry.first_cluster(width));
        if stored != cluster && cluster != own && self.is_in(own, stored)? {
            let path = context.shown().to_owned();
            self.suspended.push(SuspendedAbove { directory: own, position, above: cluster, path });
        } else if is_wrong {
            let repair = &mut |checker: &mut Self| {
                checker.edit_entry(position, &|entry| {
                    entry.attributes = entry.attributes.with(EntryAttributes::VOLUME_LABEL, false);
                    entry.attributes |= EntryAttributes::DIRECTORY;
                    entry.set_first_cluster(width, cluster);
                    entry.size = 0;
                })
            };
            self.found(wrong.clone(), Some(context.shown()), Vec::new(), repair)?;
        }
        let name = if wrong == Problem::DotWrong { "." } else { ".." };
        self.check_case_bits(position, entry, &format!("{}{name}", context.path))
    }

    /// Reports the entries `..` that are wrong because of another entry of the directory, which does not count after all.
    pub(crate) fn check_suspended(&mut self) -> Result<(), ToolError> {
        for suspended in std::mem::take(&mut self.suspended) {
            if self.shared.iter().any(|shared| shared.cluster == suspended.directory) {
                continue;
            }
            let SuspendedAbove { position, above, path, .. } = suspended;
            let repair = &mut |checker: &mut Self| checker.volume.set_start(position, above);
            self.found(Problem::DotDotWrong, Some(&path), Vec::new(), repair)?;
        }
        Ok(())
    }

    /// Returns the first cluster that the second entry of a directory has, if that is `..`; 0 is the root directory.
    pub(crate) fn above(&mut self, directory: u32) -> Result<Option<u32>, ToolError> {
        let range = DirectoryRange { start: DirectoryStart::Cluster(directory), clusters: 1, may_grow: false };
        let mut reader = range.reader();
        reader.next(&mut self.volume)?;
        let width = self.volume.geometry.width();
        Ok(reader
            .next(&mut self.volume)?
            .and_then(|slot| named_entry(&slot, ShortName::DOT_DOT))
            .map(|entry| entry.first_cluster(width)))
    }

    /// Returns whether another directory has an entry for this one, too. Which is right, is asked about the shared cluster.
    fn is_in(&mut self, directory: u32, other: u32) -> Result<bool, ToolError> {
        if self.other_parents == 0 || other != 0 && !self.volume.geometry.contains(other) {
            return Ok(false);
        }
        self.other_parents -= 1;
        let start = match other {
            0 => DirectoryStart::root(&self.volume.geometry),
            cluster => DirectoryStart::Cluster(cluster),
        };
        let width = self.volume.geometry.width();
        let is_directory = other == 0 || self.above(other)?.is_some();
        let mut reader = EntryReader::new(start, &self.volume.geometry);
        while is_directory && let Some(named) = reader.next(&mut self.volume)? {
            let is_entry = !named.is_label && !named.is_dots() && named.entry.is_directory();
            if is_entry && named.entry.first_cluster(width) == directory {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the first slots of a directory.
    fn read_slots(&mut self, context: &DirectoryContext, count: usize) -> Result<Vec<PositionedSlot>, ToolError> {
        let mut slots = Vec::new();
        let mut reader = context.range.reader();
        while slots.len() < count
            && let Some(slot) = reader.next(&mut self.volume)?
        {
            slots.push(slot);
        }
        Ok(slots)
    }

    /// Writes both entries to the first two slots; the entries there move to others first. If this is interrupted, they are
    /// there twice.
    fn create_dots(&mut self, context: &mut DirectoryContext) -> Result<(), ToolError> {
        let slots = self.read_slots(context, 2 + GROUP_MAX)?;
        let (Some(first), Some(second)) = (slots.first(), slots.get(1)) else { return Err(ToolError::Inconsistent) };
        let reserved = [first.position, second.position];
        let occupied = occupied(&slots);
        for group in &occupied {
            let free = self.volume.free_slots(&mut context.range, group.len(), &reserved, Some(&mut self.used))?;
            let copies: Vec<_> = free.into_iter().zip(group).map(|(position, slot)| (position, slot.bytes)).collect();
            self.volume.write_slots(&context.range, &copies)?;
            self.volume.flush()?;
        }
        let dots = [(ShortName::DOT, context.range.start.cluster()), (ShortName::DOT_DOT, context.parent)];
        let dots = dots.map(|(name, cluster)| self.dot_entry(name, cluster));
        let written: Vec<_> = reserved.into_iter().zip(dots).collect();
        self.volume.write_slots(&context.range, &written)?;
        let moved: Vec<u64> = occupied
            .iter()
            .flatten()
            .map(|slot| slot.position)
            .filter(|position| !reserved.contains(position))
            .collect();
        self.delete_slots(&moved)
    }

    /// Returns an entry of a directory for itself or the one above.
    pub(crate) fn dot_entry(&self, name: ShortName, cluster: u32) -> [u8; ENTRY_SIZE] {
        let mut entry = Entry::new(name, EntryAttributes::DIRECTORY);
        entry.set_first_cluster(self.volume.geometry.width(), cluster);
        let time = DosDateTime::encode(self.options.time, self.options.offset_minutes);
        entry.modified = DosDateTime { hundredths: 0, ..time };
        entry.encode()
    }
}

/// Returns an entry if it has this name, whatever its attributes are.
fn named_entry(slot: &PositionedSlot, name: ShortName) -> Option<Entry> {
    match EntrySlot::decode(&slot.bytes) {
        EntrySlot::Entry(entry) | EntrySlot::Label(entry) if entry.name == name => Some(entry),
        _ => None,
    }
}

/// Returns the entries, with the slots of their long names, that have one of the first two slots. Entries of directories for
/// themselves and for those above are none, because they are written anew.
fn occupied(slots: &[PositionedSlot]) -> Vec<Vec<PositionedSlot>> {
    let mut groups = Vec::new();
    let mut group: Vec<PositionedSlot> = Vec::new();
    for (index, slot) in slots.iter().enumerate() {
        if group.is_empty() && index >= 2 {
            break;
        }
        match EntrySlot::decode(&slot.bytes) {
            EntrySlot::End => break,
            EntrySlot::Entry(entry) if !entry.name.is_dots() => {
                group.push(*slot);
                groups.push(std::mem::take(&mut group));
            }
            EntrySlot::LongName(_) => group.push(*slot),
            EntrySlot::Deleted | EntrySlot::Label(_) | EntrySlot::Entry(_) => group.clear(),
        }
    }
    groups
}
