//! Allocation: clusters for what tools write, and slots of directories.

use super::cluster_map::ClusterMap;
use super::directory::DirectoryRange;
use super::error::ToolError;
use super::volume::Volume;
use crate::fat::format::{ENTRY_SIZE, EntrySlot, Link};

/// Largest number of slots of a directory: 2 MiB, the limit of the specification.
pub(crate) const DIRECTORY_SLOTS_MAX: u32 = 65_536;

impl Volume {
    /// Returns free clusters, ascending and in one run if there is one, without those in `taken`. They stay free.
    ///
    /// # Errors
    /// [`ToolError::NoSpace`] if there are fewer.
    pub(crate) fn find_free(&mut self, count: u32, taken: Option<&ClusterMap>) -> Result<Vec<u32>, ToolError> {
        let mut free = Vec::new();
        let mut run = Vec::new();
        for cluster in self.geometry.cluster_numbers() {
            let is_taken = taken.is_some_and(|taken| taken.contains(cluster));
            if is_taken || self.table.get(cluster)? != Link::Free {
                run.clear();
                continue;
            }
            run.push(cluster);
            if free.len() < count as usize {
                free.push(cluster);
            }
            if run.len() == count as usize {
                return Ok(run);
            }
        }
        if free.len() < count as usize { Err(ToolError::NoSpace) } else { Ok(free) }
    }

    /// Links clusters to a chain that ends with the last one, in the tables in memory.
    pub(crate) fn link(&mut self, clusters: &[u32]) -> Result<(), ToolError> {
        for (index, &cluster) in clusters.iter().enumerate() {
            let link = clusters.get(index + 1).map_or(Link::End, |&next| Link::Next(next));
            self.table.set(cluster, link)?;
        }
        Ok(())
    }

    /// Fills a cluster with zeros.
    pub(crate) fn clear_cluster(&mut self, cluster: u32) -> Result<(), ToolError> {
        let zeros = vec![0; self.geometry.cluster_size() as usize];
        self.disk.write(self.offset(cluster)?, &zeros)
    }

    /// Returns the positions of `count` neighbouring free slots of a directory, without those in `excluded`. It grows by
    /// clusters if it has none; that is stable when this returns. `taken` are clusters that are in use whatever the tables
    /// say; new ones are added.
    ///
    /// # Errors
    /// [`ToolError::RootFull`], [`ToolError::DirectoryFull`] or [`ToolError::NoSpace`].
    pub(crate) fn free_slots(
        &mut self,
        directory: &mut DirectoryRange,
        count: usize,
        excluded: &[u64],
        mut taken: Option<&mut ClusterMap>,
    ) -> Result<Vec<u64>, ToolError> {
        // As many clusters as the slots may need in addition to those that are free.
        for _ in 0..=count {
            let mut run = Vec::new();
            let mut reader = directory.reader();
            let (mut has_ended, mut slots) = (false, 0_u32);
            while let Some(slot) = reader.next(self)? {
                let kind = EntrySlot::decode(&slot.bytes);
                has_ended |= kind == EntrySlot::End;
                slots = slots.saturating_add(1);
                let is_free = (has_ended || kind == EntrySlot::Deleted) && slot.is_readable;
                if is_free && !excluded.contains(&slot.position) {
                    run.push(slot.position);
                } else {
                    run.clear();
                }
                if run.len() == count {
                    return Ok(run);
                }
            }
            self.grow_directory(directory, reader.cluster(), slots, taken.as_deref_mut())?;
        }
        Err(ToolError::NoSpace)
    }

    /// Appends a cluster of zeros to a directory whose chain ends with `last`.
    fn grow_directory(
        &mut self,
        directory: &mut DirectoryRange,
        last: Option<u32>,
        slots: u32,
        taken: Option<&mut ClusterMap>,
    ) -> Result<(), ToolError> {
        let last = last.ok_or(ToolError::RootFull)?;
        let slots_per_cluster = self.geometry.cluster_size() / ENTRY_SIZE as u32;
        if !directory.may_grow || slots.saturating_add(slots_per_cluster) > DIRECTORY_SLOTS_MAX {
            return Err(ToolError::DirectoryFull);
        }
        let new = self.find_free(1, taken.as_deref())?;
        let cluster = *new.first().ok_or(ToolError::NoSpace)?;
        if let Some(taken) = taken {
            taken.insert(cluster);
        }
        self.clear_cluster(cluster)?;
        self.link(&new)?;
        self.flush()?;
        self.table.set(last, Link::Next(cluster))?;
        self.flush()?;
        directory.clusters = directory.clusters.saturating_add(1);
        Ok(())
    }

    /// Writes slots at their positions. A free slot after the end of the directory takes the end mark with it; what
    /// follows may be anything, so the next slot becomes the end.
    pub(crate) fn write_slots(
        &mut self,
        directory: &DirectoryRange,
        slots: &[(u64, [u8; ENTRY_SIZE])],
    ) -> Result<(), ToolError> {
        if let Some(end) = self.moved_end(directory, slots)? {
            self.disk.write(end, &[0; ENTRY_SIZE])?;
            self.disk.flush()?;
        }
        // The last one is the entry that makes the others valid.
        slots.iter().try_for_each(|(position, bytes)| self.disk.write(*position, bytes))
    }

    /// Returns the position of the slot that becomes the end of a directory when these are written, unless it is one.
    fn moved_end(
        &mut self,
        directory: &DirectoryRange,
        slots: &[(u64, [u8; ENTRY_SIZE])],
    ) -> Result<Option<u64>, ToolError> {
        let is_written = |position| slots.iter().any(|&(written, _)| written == position);
        let mut reader = directory.reader();
        let mut was_end = false;
        while let Some(slot) = reader.next(self)? {
            let is_end = EntrySlot::decode(&slot.bytes) == EntrySlot::End;
            if is_written(slot.position) {
                was_end |= is_end;
            } else if was_end {
                return Ok((!is_end).then_some(slot.position));
            } else if is_end {
                return Ok(None);
            }
        }
        Ok(None)
    }
}
