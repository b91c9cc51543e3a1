//! Directories as tools read them: slots with their positions, and entries with their names.

use std::ops::Range;

use super::error::ToolError;
use super::volume::Volume;
use crate::fat::format::{
    CodePage, ENTRY_SIZE, Entry, EntryAttributes, EntrySlot, Geometry, Link, LongNameFault, LongNameReader,
    units_to_name,
};

/// Number of slots that the format allows a directory.
const SLOTS_MAX: u32 = 65_536;

/// Returns the number of clusters that the format allows a directory.
fn clusters_max(geometry: &Geometry) -> u32 {
    (SLOTS_MAX * ENTRY_SIZE as u32).div_ceil(geometry.cluster_size())
}

/// Where the slots of a directory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryStart {
    /// In the root directory of fixed size.
    FixedRoot,
    /// In a chain that starts with this cluster.
    Cluster(u32),
}

impl DirectoryStart {
    /// Returns the root directory.
    pub(crate) fn root(geometry: &Geometry) -> Self {
        geometry.root_cluster().map_or(Self::FixedRoot, Self::Cluster)
    }

    /// Returns the cluster; 0 for the root directory of fixed size, as an entry `..` says.
    pub(crate) fn cluster(self) -> u32 {
        match self {
            Self::FixedRoot => 0,
            Self::Cluster(cluster) => cluster,
        }
    }
}

/// The part of a directory that is its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryRange {
    /// Where it starts.
    pub(crate) start: DirectoryStart,
    /// Number of clusters of its chain that belong to it.
    pub(crate) clusters: u32,
    /// Whether its chain ends after them, so that others may be appended.
    pub(crate) may_grow: bool,
}

impl DirectoryRange {
    /// Returns the whole of a directory that is sound, and no more of another one than the format allows.
    pub(crate) fn whole(start: DirectoryStart, geometry: &Geometry) -> Self {
        Self { start, clusters: clusters_max(geometry), may_grow: true }
    }

    /// Begins to read the slots.
    pub(crate) fn reader(&self) -> SlotReader {
        SlotReader::new(self.start, self.clusters)
    }
}

/// A slot of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositionedSlot {
    /// Offset on the device in bytes, by which a slot is known.
    pub(crate) position: u64,
    /// The slot.
    pub(crate) bytes: [u8; ENTRY_SIZE],
    /// Whether it can be read; otherwise it seems to be deleted.
    pub(crate) is_readable: bool,
}

impl PositionedSlot {
    /// Returns the attributes.
    pub(crate) fn attributes(&self) -> EntryAttributes {
        let [_, _, _, _, _, _, _, _, _, _, _, attributes, ..] = self.bytes;
        EntryAttributes(attributes)
    }
}

/// Reads the slots of a directory one after the other, also those after its end mark.
pub(crate) struct SlotReader {
    start: DirectoryStart,
    /// Cluster in the buffer.
    cluster: Option<u32>,
    /// Clusters that may still follow.
    clusters_left: u32,
    /// Number of clusters that have been read.
    clusters_read: u32,
    /// Offset of the buffer on the device.
    offset: u64,
    buffer: Vec<u8>,
    within: usize,
    /// Parts of the buffer that cannot be read.
    lost: Vec<Range<usize>>,
    /// Clusters, or 0 for the fixed root, parts of which cannot be read.
    unreadable: Vec<u32>,
}

impl SlotReader {
    /// Begins to read a directory; of its chain only the first `clusters_max` clusters.
    fn new(start: DirectoryStart, clusters_max: u32) -> Self {
        let clusters_left = clusters_max;
        Self {
            start,
            cluster: None,
            clusters_left,
            clusters_read: 0,
            offset: 0,
            buffer: Vec::new(),
            within: 0,
            lost: Vec::new(),
            unreadable: Vec::new(),
        }
    }

    /// Returns the next slot; `None` at the end of the chain. What cannot be read, seems to be deleted.
    pub(crate) fn next(&mut self, volume: &mut Volume) -> Result<Option<PositionedSlot>, ToolError> {
        loop {
            let rest = self.buffer.get(self.within..).unwrap_or_default();
            if let Some(bytes) = rest.first_chunk::<ENTRY_SIZE>() {
                let is_readable = !self.lost.iter().any(|part| part.contains(&self.within));
                let slot = PositionedSlot { position: self.offset + self.within as u64, bytes: *bytes, is_readable };
                self.within += ENTRY_SIZE;
                return Ok(Some(slot));
            }
            if !self.load_next(volume)? {
                return Ok(None);
            }
        }
    }

    /// Returns the clusters so far of which parts cannot be read; 0 for the root directory of fixed size.
    pub(crate) fn unreadable(&self) -> &[u32] {
        &self.unreadable
    }

    /// Returns the cluster of the last slot; `None` in the root directory of fixed size.
    pub(crate) fn cluster(&self) -> Option<u32> {
        self.cluster
    }

    fn load_next(&mut self, volume: &mut Volume) -> Result<bool, ToolError> {
        let (cluster, offset, length) = match (self.start, self.cluster) {
            (DirectoryStart::FixedRoot, _) if !self.buffer.is_empty() => return Ok(false),
            (DirectoryStart::FixedRoot, _) => match volume.geometry.root_region() {
                Some((offset, length)) => (0, offset, length),
                None => return Ok(false),
            },
            (DirectoryStart::Cluster(first), last) => {
                let cluster = match last {
                    None => first,
                    Some(last) => match volume.table.get(last)? {
                        Link::Next(next) => next,
                        _ => return Ok(false),
                    },
                };
                let Some(offset) = volume.geometry.cluster_offset(cluster) else { return Ok(false) };
                let Some(left) = self.clusters_left.checked_sub(1) else { return Ok(false) };
                self.clusters_left = left;
                self.clusters_read += 1;
                self.cluster = Some(cluster);
                (cluster, offset, volume.geometry.cluster_size())
            }
        };
        self.buffer.resize(length as usize, 0);
        (self.offset, self.within) = (offset, 0);
        let sector = volume.geometry.bytes_per_sector() as usize;
        self.lost = volume.disk.read_entries(offset, &mut self.buffer, sector);
        if !self.lost.is_empty() {
            self.unreadable.push(cluster);
        }
        Ok(true)
    }
}

/// An entry with its names.
#[derive(Clone, Debug)]
pub(crate) struct NamedEntry {
    /// The entry.
    pub(crate) entry: Entry,
    /// Position of the entry.
    pub(crate) position: u64,
    /// Positions of the slots of its long name.
    pub(crate) slots: Vec<u64>,
    /// The long name, if it has one.
    pub(crate) long_name: Option<Vec<u16>>,
    /// Whether it is the label of the volume.
    pub(crate) is_label: bool,
}

impl NamedEntry {
    /// Returns the name as it is shown.
    pub(crate) fn shown(&self, page: CodePage) -> String {
        match &self.long_name {
            Some(units) => String::from_utf8_lossy(&units_to_name(units)).into_owned(),
            None => self.entry.name.decode(page, self.entry.case),
        }
    }

    /// Returns the name as it is shown, as code units.
    pub(crate) fn shown_units(&self, page: CodePage) -> Vec<u16> {
        self.long_name.clone().unwrap_or_else(|| self.entry.name.decode(page, self.entry.case).encode_utf16().collect())
    }

    /// Returns whether this is the entry of a directory for itself or its parent.
    pub(crate) fn is_dots(&self) -> bool {
        !self.is_label && self.entry.name.is_dots()
    }
}

/// Reads the entries of a directory up to its end. Slots that are no name of an entry are ignored.
pub(crate) struct EntryReader {
    slots: SlotReader,
    long_name: LongNameReader,
    positions: Vec<u64>,
    has_ended: bool,
}

impl EntryReader {
    /// Begins to read a directory.
    pub(crate) fn new(start: DirectoryStart, geometry: &Geometry) -> Self {
        Self::limited(start, geometry, geometry.clusters())
    }

    /// Begins to read a directory; of its chain at most `clusters_max` clusters, and no more than the format allows.
    pub(crate) fn limited(start: DirectoryStart, geometry: &Geometry, clusters_max: u32) -> Self {
        let slots = SlotReader::new(start, self::clusters_max(geometry).min(clusters_max));
        Self { slots, long_name: LongNameReader::default(), positions: Vec::new(), has_ended: false }
    }

    /// Returns the number of clusters that have been read.
    pub(crate) fn clusters_read(&self) -> u32 {
        self.slots.clusters_read
    }

    /// Returns the next entry, also the label and the entries of the directory for itself and its parent.
    pub(crate) fn next(&mut self, volume: &mut Volume) -> Result<Option<NamedEntry>, ToolError> {
        while !self.has_ended {
            let Some(PositionedSlot { position, bytes, .. }) = self.slots.next(volume)? else { break };
            let (entry, is_label) = match EntrySlot::decode(&bytes) {
                EntrySlot::End => break,
                EntrySlot::Deleted => {
                    self.long_name.clear();
                    continue;
                }
                EntrySlot::LongName(slot) => {
                    let pushed = self.long_name.push(&slot);
                    if slot.is_first() {
                        self.positions.clear();
                    }
                    if pushed.is_ok() || pushed == Err(LongNameFault::StartInside) {
                        self.positions.push(position);
                    }
                    continue;
                }
                EntrySlot::Label(entry) => (entry, true),
                EntrySlot::Entry(entry) => (entry, false),
            };
            let long_name = self.long_name.finish(&entry.name).ok().flatten().filter(|_| !is_label);
            let slots = std::mem::take(&mut self.positions);
            let slots = if long_name.is_some() { slots } else { Vec::new() };
            return Ok(Some(NamedEntry { entry, position, slots, long_name, is_label }));
        }
        self.has_ended = true;
        Ok(None)
    }
}
