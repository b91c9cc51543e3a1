//! Logs of Unix metadata: that they are hidden, and that nothing else is in their place.

use super::checker::Checker;
use super::names::{CheckedName, Names};
use super::options::FsckMode;
use super::problem::Problem;
use crate::fat::format::EntryAttributes;
use crate::fat::sidecar::log::{HEADER_SIZE, MAGIC, Seed};
use crate::fat::sidecar::store::SIDECAR_NAME;
use crate::fat::tools::error::ToolError;

/// The attributes by which a log is told from a file of the same name.
const OWN: EntryAttributes = EntryAttributes::HIDDEN.with(EntryAttributes::SYSTEM, true);

impl Checker<'_> {
    /// Checks a file that has the name of a log. Preening does not: where logs are used, mounting does.
    pub(crate) fn check_own_file(&mut self, names: &mut Names, checked: &mut CheckedName<'_>) -> Result<(), ToolError> {
        let entry = *checked.entry;
        let may_be_log = entry.name == SIDECAR_NAME && !entry.is_directory() && entry.size > 0;
        if !may_be_log || self.options.mode == FsckMode::Preen {
            return Ok(());
        }
        let start = entry.first_cluster(self.volume.geometry.width());
        let Some(offset) = self.volume.geometry.cluster_offset(start) else { return Ok(()) };
        let mut header = [0; HEADER_SIZE];
        if self.volume.disk.read(offset, &mut header).is_err() {
            return Ok(());
        }
        let is_known = Seed::of_log(&header).is_some() && entry.size as usize >= HEADER_SIZE;
        match (entry.is_hidden_file(), is_known) {
            (true, true) => Ok(()),
            (false, false) if !header.starts_with(&MAGIC) => Ok(()),
            (false, true) => {
                let position = checked.position;
                let repair = &mut |checker: &mut Self| {
                    checker
                        .edit_entry(position, &|entry| entry.attributes = EntryAttributes(entry.attributes.0 | OWN.0))
                };
                self.found(Problem::SidecarVisible, Some(checked.path), Vec::new(), repair).map(drop)
            }
            (_, false) => self.set_aside(names, checked),
        }
    }

    /// Makes a log that cannot be used a visible file with another name.
    fn set_aside(&mut self, names: &mut Names, checked: &mut CheckedName<'_>) -> Result<(), ToolError> {
        self.rename(names, checked, Problem::SidecarInvalid, false)?;
        if checked.entry.name != SIDECAR_NAME {
            self.edit_entry(checked.position, &|entry| {
                entry.attributes = EntryAttributes(entry.attributes.0 & !OWN.0);
            })?;
        }
        Ok(())
    }
}
