//! Replacement of clusters that cannot be read.

use super::cluster_map::ClusterMap;
use super::directory::{DirectoryStart, EntryReader};
use super::error::ToolError;
use super::volume::Volume;
use crate::fat::format::{ENTRY_SIZE, Entry, EntrySlot, Link, ShortName};

impl Volume {
    /// Replaces a cluster of a chain by a free one with the same contents as far as they can be read, and marks it as bad.
    /// The rest of a file is zeros; of a directory, deleted entries. Returns the new cluster. Everything is stable then.
    ///
    /// `start` is the first cluster of the chain, and `position` that of its entry, without which it is the root directory.
    /// Clusters in `taken` are in use whatever the tables say.
    ///
    /// # Errors
    /// [`ToolError::NoSpace`]; [`ToolError::Inconsistent`] if the cluster is not in the chain.
    pub(crate) fn replace_cluster(
        &mut self,
        start: u32,
        position: Option<u64>,
        cluster: u32,
        taken: Option<&ClusterMap>,
        is_directory: bool,
    ) -> Result<u32, ToolError> {
        let before = self.predecessor(start, cluster)?;
        let new = *self.find_free(1, taken)?.first().ok_or(ToolError::NoSpace)?;
        let mut contents = vec![0; self.geometry.cluster_size() as usize];
        let filler = if is_directory { EntrySlot::DELETED } else { 0 };
        let sector = self.geometry.bytes_per_sector() as usize;
        self.disk.read_available(self.offset(cluster)?, &mut contents, sector, filler);
        if is_directory && before.is_none() {
            self.point_dot(&mut contents, new);
        }
        self.disk.write(self.offset(new)?, &contents)?;
        let link = self.table.get(cluster)?;
        self.table.set(new, link)?;
        self.flush()?;
        match (before, position) {
            (Some(before), _) => self.table.set(before, Link::Next(new))?,
            (None, Some(position)) => self.set_start(position, new)?,
            (None, None) => self.change_boot_sector(&|boot| {
                if let Some(fields) = &mut boot.extended {
                    fields.root_cluster = new;
                }
            })?,
        }
        if is_directory && before.is_none() {
            self.point_children(new, cluster)?;
        }
        self.flush()?;
        self.table.set(cluster, Link::Bad)?;
        self.flush()?;
        Ok(new)
    }

    /// Makes the entries `..` of the directories in a directory, which had the first cluster `old`, refer to its present
    /// one. Nothing changes that is not such an entry.
    pub(crate) fn point_children(&mut self, directory: u32, old: u32) -> Result<(), ToolError> {
        let width = self.geometry.width();
        let mut reader = EntryReader::new(DirectoryStart::Cluster(directory), &self.geometry);
        while let Some(named) = reader.next(self)? {
            let child = named.entry.first_cluster(width);
            if named.is_dots() || !named.entry.is_directory() || child == directory {
                continue;
            }
            let Some(offset) = self.geometry.cluster_offset(child) else { continue };
            let mut bytes = [0; 2 * ENTRY_SIZE];
            if self.disk.read(offset, &mut bytes).is_err() {
                continue;
            }
            let (dot, above) = bytes.split_at(ENTRY_SIZE);
            let entry = |bytes: &[u8]| bytes.first_chunk().map(Entry::decode);
            if let (Some(dot), Some(mut above)) = (entry(dot), entry(above))
                && (dot.name, dot.first_cluster(width)) == (ShortName::DOT, child)
                && (above.name, above.first_cluster(width)) == (ShortName::DOT_DOT, old)
            {
                above.set_first_cluster(width, directory);
                self.disk.write(offset + ENTRY_SIZE as u64, &above.encode())?;
            }
        }
        Ok(())
    }

    /// Copies the contents of a cluster to another one, as far as they can be read; the rest is zeros.
    pub(crate) fn copy_cluster(&mut self, from: u32, to: u32) -> Result<(), ToolError> {
        let mut contents = vec![0; self.geometry.cluster_size() as usize];
        let sector = self.geometry.bytes_per_sector() as usize;
        self.disk.read_available(self.offset(from)?, &mut contents, sector, 0);
        self.disk.write(self.offset(to)?, &contents)
    }

    /// Returns the cluster before another one in a chain; `None` before the first.
    pub(crate) fn predecessor(&mut self, start: u32, cluster: u32) -> Result<Option<u32>, ToolError> {
        let (mut before, mut each) = (None, start);
        for _ in 0..self.geometry.clusters() {
            if each == cluster {
                return Ok(before);
            }
            match self.table.get(each)? {
                Link::Next(next) => (before, each) = (Some(each), next),
                _ => break,
            }
        }
        Err(ToolError::Inconsistent)
    }

    /// Returns the first cluster of an entry.
    pub(crate) fn start_of(&self, position: u64) -> Result<u32, ToolError> {
        let mut bytes = [0; ENTRY_SIZE];
        self.disk.read(position, &mut bytes)?;
        Ok(Entry::decode(&bytes).first_cluster(self.geometry.width()))
    }

    /// Sets the first cluster of an entry.
    pub(crate) fn set_start(&mut self, position: u64, start: u32) -> Result<(), ToolError> {
        let mut bytes = [0; ENTRY_SIZE];
        self.disk.read(position, &mut bytes)?;
        let mut entry = Entry::decode(&bytes);
        entry.set_first_cluster(self.geometry.width(), start);
        self.disk.write(position, &entry.encode())
    }

    /// Makes the entry of a directory for itself, if its first cluster begins with one, refer to another cluster.
    pub(crate) fn point_dot(&self, contents: &mut [u8], start: u32) {
        if let Some(bytes) = contents.first_chunk_mut::<ENTRY_SIZE>() {
            let mut entry = Entry::decode(bytes);
            if entry.name == ShortName::DOT {
                entry.set_first_cluster(self.geometry.width(), start);
                *bytes = entry.encode();
            }
        }
    }
}
