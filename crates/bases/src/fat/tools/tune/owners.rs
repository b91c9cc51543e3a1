//! Which chain each cluster belongs to, so that any cluster can be moved.

use std::collections::HashMap;

use crate::fat::format::{CodePage, ENTRY_SIZE, Entry, EntrySlot, Link};
use crate::fat::tools::cluster_map::ClusterMap;
use crate::fat::tools::directory::DirectoryStart;
use crate::fat::tools::error::ToolError;
use crate::fat::tools::volume::Volume;

/// Bit of a cluster's predecessor that marks the number of a chain. Numbers of clusters have 28 bits.
const CHAIN: u32 = 1 << 31;

/// Where the first cluster of a chain is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainReference {
    /// In the boot sector: the root directory.
    BootSector,
    /// In an entry of the root directory of fixed size, at this position on the device.
    FixedRoot(u64),
    /// In an entry of a directory, at this offset in this cluster of it.
    Directory {
        /// The cluster.
        cluster: u32,
        /// The offset in bytes.
        offset: u32,
    },
}

/// The chain of a file or directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainHead {
    /// First cluster.
    pub(crate) start: u32,
    /// Where that is recorded.
    pub(crate) reference: ChainReference,
    /// Whether it is a directory.
    pub(crate) is_directory: bool,
}

/// What is before a cluster in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing: this is the first cluster of the chain with this number.
    Head(usize),
    /// This cluster.
    Cluster(u32),
}

/// The owners of all clusters of a file system that is sound. Takes 4 bytes for each cluster.
pub(crate) struct Owners {
    /// By cluster: the one before it, or the number of the chain that it starts, marked; 0 if it is in no chain.
    before: Vec<u32>,
    /// The chains in the order of a walk.
    pub(crate) heads: Vec<ChainHead>,
    /// Clusters of directories.
    directories: ClusterMap,
    /// Free clusters.
    pub(crate) free: ClusterMap,
    /// Clusters that must not be used.
    pub(crate) bad: ClusterMap,
}

impl Owners {
    /// Finds the owners of all clusters.
    ///
    /// # Errors
    /// [`ToolError::Inconsistent`] if two chains share a cluster, or one does not end as it should.
    pub(crate) fn find(volume: &mut Volume, page: CodePage) -> Result<Self, ToolError> {
        let geometry = volume.geometry;
        let map = || ClusterMap::new(&geometry);
        let before = vec![0; geometry.cluster_numbers().end as usize];
        let mut owners = Self { before, heads: Vec::new(), directories: map(), free: map(), bad: map() };
        for cluster in geometry.cluster_numbers() {
            match volume.table.get(cluster)? {
                Link::Free => drop(owners.free.insert(cluster)),
                Link::Bad => drop(owners.bad.insert(cluster)),
                Link::Next(_) | Link::End => (),
            }
        }
        if let DirectoryStart::Cluster(start) = DirectoryStart::root(&geometry) {
            owners.add(volume, ChainHead { start, reference: ChainReference::BootSector, is_directory: true })?;
        }
        volume.walk(page, &mut |volume, entry| {
            let start = entry.named.entry.first_cluster(geometry.width());
            if start == 0 {
                return Ok(());
            }
            let position = entry.named.position;
            let reference = match geometry.cluster_at(position) {
                None => ChainReference::FixedRoot(position),
                Some(cluster) => {
                    ChainReference::Directory { cluster, offset: (position - volume.offset(cluster)?) as u32 }
                }
            };
            owners.add(volume, ChainHead { start, reference, is_directory: entry.named.entry.is_directory() })
        })?;
        Ok(owners)
    }

    fn add(&mut self, volume: &mut Volume, head: ChainHead) -> Result<(), ToolError> {
        let mut before = self.heads.len() as u32 | CHAIN;
        self.heads.push(head);
        for cluster in volume.sound_chain(head.start)? {
            match self.before.get_mut(cluster as usize) {
                Some(stored) if *stored == 0 => *stored = before,
                _ => return Err(ToolError::Inconsistent),
            }
            if head.is_directory {
                self.directories.insert(cluster);
            }
            before = cluster;
        }
        Ok(())
    }

    /// Returns what is before a cluster; `None` if it is in no chain.
    pub(crate) fn before(&self, cluster: u32) -> Option<Before> {
        match self.before.get(cluster as usize).copied()? {
            0 => None,
            head if head & CHAIN != 0 => Some(Before::Head((head & !CHAIN) as usize)),
            before => Some(Before::Cluster(before)),
        }
    }

    /// Returns whether a cluster is one of a directory.
    pub(crate) fn is_directory(&self, cluster: u32) -> bool {
        self.directories.contains(cluster)
    }

    /// Records that clusters have moved. `after` are the links of the new ones.
    pub(crate) fn record_moves(&mut self, moves: &HashMap<u32, u32>, after: &[(u32, Link)]) {
        let moved = |cluster: u32| moves.get(&cluster).copied().unwrap_or(cluster);
        let old: Vec<(u32, u32, u32)> =
            moves.iter().map(|(&from, &to)| (from, to, self.before.get(from as usize).copied().unwrap_or(0))).collect();
        for &(from, ..) in &old {
            self.set_before(from, 0);
            self.free.insert(from);
        }
        for &(from, to, before) in &old {
            self.set_before(to, if before & CHAIN != 0 { before } else { moved(before) });
            self.free.remove(to);
            if let Some(head) = self.heads.get_mut((before & !CHAIN) as usize).filter(|_| before & CHAIN != 0) {
                head.start = to;
            }
            if self.directories.contains(from) {
                self.directories.remove(from);
                self.directories.insert(to);
            }
        }
        for &(cluster, link) in after {
            if let Link::Next(next) = link {
                self.set_before(next, cluster);
            }
        }
    }

    fn set_before(&mut self, cluster: u32, before: u32) {
        if let Some(stored) = self.before.get_mut(cluster as usize) {
            *stored = before;
        }
    }

    /// Records that the entries in a cluster of a directory are in another one from now on. The chains that they start have not
    /// been recorded as moved yet.
    pub(crate) fn move_entries(&mut self, volume: &Volume, contents: &[u8], from: u32, to: u32) {
        let width = volume.geometry.width();
        let (slots, _) = contents.as_chunks::<ENTRY_SIZE>();
        for (index, slot) in slots.iter().enumerate() {
            let start = match EntrySlot::decode(slot) {
                EntrySlot::Entry(entry) if !entry.name.is_dots() => Entry::first_cluster(&entry, width),
                _ => continue,
            };
            let offset = (index * ENTRY_SIZE) as u32;
            let reference = ChainReference::Directory { cluster: from, offset };
            if let Some(Before::Head(number)) = self.before(start)
                && let Some(head) = self.heads.get_mut(number)
                && head.reference == reference
            {
                head.reference = ChainReference::Directory { cluster: to, offset };
            }
        }
    }
}
