//! Entries in the root directory for what has lost its own.

use std::collections::HashSet;

use super::checker::Checker;
use crate::fat::format::{DosDateTime, Entry, EntryAttributes, EntrySlot, ShortName};
use crate::fat::tools::error::ToolError;

/// Number of names.
const NAMES: u32 = 10_000;

impl Checker<'_> {
    /// Creates an entry `FSCK` with the first free number and an extension. Returns its name and position.
    ///
    /// # Errors
    /// [`ToolError::RootFull`], [`ToolError::DirectoryFull`] or [`ToolError::NoSpace`].
    pub(crate) fn save_entry(
        &mut self,
        extension: &str,
        attributes: EntryAttributes,
        start: u32,
        size: u32,
    ) -> Result<(ShortName, u64), ToolError> {
        let name = self.saved_name(extension)?;
        let mut entry = Entry::new(name, attributes);
        entry.set_first_cluster(self.volume.geometry.width(), start);
        entry.size = size;
        let time = DosDateTime::encode(self.options.time, self.options.offset_minutes);
        entry.modified = DosDateTime { hundredths: 0, ..time };
        let mut range = self.root_range;
        let free = self.volume.free_slots(&mut range, 1, &[], Some(&mut self.used))?;
        self.root_range = range;
        let position = *free.first().ok_or(ToolError::RootFull)?;
        self.volume.write_slots(&range, &[(position, entry.encode())])?;
        self.saved_names.get_or_insert_default().insert(name);
        Ok((name, position))
    }

    fn saved_name(&mut self, extension: &str) -> Result<ShortName, ToolError> {
        if self.saved_names.is_none() {
            let mut names = HashSet::new();
            let mut reader = self.root_range.reader();
            while let Some(slot) = reader.next(&mut self.volume)? {
                match EntrySlot::decode(&slot.bytes) {
                    EntrySlot::End => break,
                    EntrySlot::Entry(entry) if entry.name.0.starts_with(b"FSCK") => drop(names.insert(entry.name)),
                    _ => (),
                }
            }
            self.saved_names = Some(names);
        }
        let taken = self.saved_names.get_or_insert_default();
        let mut names = (0..NAMES).map(|number| {
            let mut name = [b' '; 11];
            let text = format!("FSCK{number:04}{extension}");
            name.iter_mut().zip(text.bytes()).for_each(|(byte, value)| *byte = value);
            ShortName(name)
        });
        names.find(|name| !taken.contains(name)).ok_or(ToolError::DirectoryFull)
    }
}
