//! Entries in the root directory for what has lost its own.

use std::collections::HashSet;

use super::checker::Checker;
use super::saved::{SavedDirectory, SavedEntry};
use crate::fat::format::{
    CaseBits, DosDateTime, Entry, EntryAttributes, EntrySlot, SAVED_DIRECTORY, SAVED_NAMES, ShortName,
};
use crate::fat::tools::directory::{DirectoryRange, DirectoryStart};
use crate::fat::tools::error::ToolError;

impl Checker<'_> {
    /// Creates an entry `FSCK` with the first free number and an extension. It is in the root directory, or, if that has a fixed
    /// size and only one free slot, in a directory there.
    ///
    /// # Errors
    /// [`ToolError::RootFull`], [`ToolError::DirectoryFull`] or [`ToolError::NoSpace`].
    pub(crate) fn save_entry(
        &mut self,
        extension: &str,
        attributes: EntryAttributes,
        start: u32,
        size: u32,
    ) -> Result<SavedEntry, ToolError> {
        let is_fixed = self.root_range.start == DirectoryStart::FixedRoot;
        if self.saved_directory.is_none() && is_fixed {
            let mut range = self.root_range;
            if self.volume.free_slots(&mut range, 2, &[], None).is_err() {
                self.create_saved_directory()?;
            }
        }
        let (mut range, parent, folder) = match &self.saved_directory {
            Some(directory) => (directory.range, directory.range.start.cluster(), directory.path.clone()),
            None => (self.root_range, 0, String::new()),
        };
        let created = self.create_entry(&mut range, extension, attributes, start, size);
        match &mut self.saved_directory {
            Some(directory) => directory.range = range,
            None => self.root_range = range,
        }
        let (name, position) = created?;
        let path = format!("{folder}/{}", name.decode(self.options.page, CaseBits::default()));
        Ok(SavedEntry { path, position, parent })
    }

    /// Creates a directory in the last free slot of the root directory.
    fn create_saved_directory(&mut self) -> Result<(), ToolError> {
        let new = self.volume.find_free(1, Some(&self.used))?;
        let cluster = *new.first().ok_or(ToolError::NoSpace)?;
        let mut range = self.root_range;
        // Nothing is written if there is no slot at all.
        self.volume.free_slots(&mut range, 1, &[], None)?;
        self.used.insert(cluster);
        self.volume.clear_cluster(cluster)?;
        let dots =
            [(ShortName::DOT, cluster), (ShortName::DOT_DOT, 0)].map(|(name, start)| self.dot_entry(name, start));
        self.volume.disk.write(self.volume.offset(cluster)?, dots.as_flattened())?;
        self.volume.link(&new)?;
        self.volume.flush()?;
        let (name, _) = self.create_entry(&mut range, SAVED_DIRECTORY, EntryAttributes::DIRECTORY, cluster, 0)?;
        self.report.directories += 1;
        self.saved_directory = Some(SavedDirectory {
            range: DirectoryRange { start: DirectoryStart::Cluster(cluster), clusters: 1, may_grow: true },
            path: format!("/{}", name.decode(self.options.page, CaseBits::default())),
        });
        Ok(())
    }

    /// Creates an entry in a directory. Returns its name and position.
    fn create_entry(
        &mut self,
        range: &mut DirectoryRange,
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
        let free = self.volume.free_slots(range, 1, &[], Some(&mut self.used))?;
        let position = *free.first().ok_or(ToolError::RootFull)?;
        self.volume.write_slots(range, &[(position, entry.encode())])?;
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
                    EntrySlot::Entry(entry) if entry.name.is_saved() => drop(names.insert(entry.name)),
                    _ => (),
                }
            }
            self.saved_names = Some(names);
        }
        let taken = self.saved_names.get_or_insert_default();
        let mut names = (0..SAVED_NAMES).map(|number| ShortName::saved(number, extension));
        names.find(|name| !taken.contains(name)).ok_or(ToolError::DirectoryFull)
    }
}
