//! The entries of a directory for itself and for the directory above.

use super::checker::Checker;
use super::context::DirectoryContext;
use super::problem::Problem;
use crate::fat::format::{DosDateTime, ENTRY_SIZE, Entry, EntryAttributes, EntrySlot, ShortName};
use crate::fat::tools::directory::PositionedSlot;
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
        problem: Problem,
    ) -> Result<(), ToolError> {
        let width = self.volume.geometry.width();
        if !entry.is_directory() || entry.first_cluster(width) != cluster || entry.size != 0 {
            let repair = &mut |checker: &mut Self| {
                checker.edit_entry(position, &|entry| {
                    entry.attributes = entry.attributes.with(EntryAttributes::VOLUME_LABEL, false);
                    entry.attributes |= EntryAttributes::DIRECTORY;
                    entry.set_first_cluster(width, cluster);
                    entry.size = 0;
                })
            };
            self.found(problem, Some(context.shown()), Vec::new(), repair)?;
        }
        Ok(())
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

    fn dot_entry(&self, name: ShortName, cluster: u32) -> [u8; ENTRY_SIZE] {
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
