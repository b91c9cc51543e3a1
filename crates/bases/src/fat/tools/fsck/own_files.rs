//! Logs of Unix metadata: that they are hidden, and that nothing else is in their place.

use super::checker::Checker;
use super::names::{CheckedName, Names};
use super::options::FsckMode;
use super::problem::Problem;
use crate::fat::format::{EntryAttributes, Link};
use crate::fat::sidecar::log::{HEADER_SIZE, MAGIC, Seed};
use crate::fat::sidecar::store::SIDECAR_NAME;
use crate::fat::tools::error::ToolError;

/// The attributes by which a log is told from a file of the same name.
pub(crate) const OWN: EntryAttributes = EntryAttributes::HIDDEN.with(EntryAttributes::SYSTEM, true);

impl Checker<'_> {
    /// Checks a file that has the name of a log. Preening does not: where logs are used, mounting does.
    pub(crate) fn check_own_file(&mut self, names: &mut Names, checked: &mut CheckedName<'_>) -> Result<(), ToolError> {
        let entry = *checked.entry;
        let may_be_log = entry.name == SIDECAR_NAME && (entry.is_directory() || entry.size > 0);
        if !may_be_log || self.options.mode == FsckMode::Preen {
            return Ok(());
        }
        let start = entry.first_cluster(self.volume.geometry.width());
        let Some(offset) = self.volume.geometry.cluster_offset(start) else { return Ok(()) };
        let mut header = [0; HEADER_SIZE];
        if self.volume.disk.read(offset, &mut header).is_err() {
            return Ok(());
        }
        match entry.is_directory() {
            true if header.starts_with(&MAGIC) => self.make_file(start, checked)?,
            true => return Ok(()),
            false => {}
        }
        let entry = *checked.entry;
        let is_known = Seed::of_log(&header).is_some() && entry.size as usize >= HEADER_SIZE;
        match (entry.is_hidden_file(), is_known) {
            (true, true) => Ok(()),
            (false, false) if !header.starts_with(&MAGIC) => Ok(()),
            (false, true) => {
                let position = checked.position;
                let repair = &mut |checker: &mut Self| {
                    checker.edit_entry(position, &|entry| entry.attributes = entry.attributes.with(OWN, true))
                };
                self.found(Problem::SidecarVisible, Some(checked.path), Vec::new(), repair).map(drop)
            }
            (_, false) => self.set_aside(names, checked),
        }
    }

    /// Makes a directory with the contents of a log a file again, of the size of its chain. It is checked as a file in any case.
    fn make_file(&mut self, start: u32, checked: &mut CheckedName<'_>) -> Result<(), ToolError> {
        let size = self.chain_size(start)?;
        let position = checked.position;
        let repair = &mut |checker: &mut Self| checker.edit_entry(position, &|entry| entry.make_file(size));
        self.found(Problem::SidecarDirectory, Some(checked.path), Vec::new(), repair)?;
        checked.entry.make_file(size);
        Ok(())
    }

    /// Returns the size of what a chain has room for in bytes, or the largest of a file. One that does not end has all clusters.
    fn chain_size(&mut self, start: u32) -> Result<u32, ToolError> {
        let mut clusters = 0_u32;
        let mut link = Link::Next(start);
        while clusters < self.volume.geometry.clusters()
            && let Ok(cluster) = self.volume.follow(link)?
        {
            clusters += 1;
            link = self.volume.table.get(cluster)?;
        }
        Ok(clusters.saturating_mul(self.volume.geometry.cluster_size()))
    }

    /// Makes a log that cannot be used a visible file with another name.
    fn set_aside(&mut self, names: &mut Names, checked: &mut CheckedName<'_>) -> Result<(), ToolError> {
        self.rename(names, checked, Problem::SidecarInvalid, false)?;
        if checked.entry.name != SIDECAR_NAME {
            self.edit_entry(checked.position, &|entry| {
                entry.attributes = entry.attributes.with(OWN, false);
            })?;
        }
        Ok(())
    }
}
