//! The journal: a hidden file in which several blocks of directories are written before they are written in place, so that a power
//! failure leaves all of them as before or all changed.
//!
//! A batch is complete once its checksum is right. It is applied again when the volume is mounted, unless the blocks that it would
//! change were changed by somebody else in between.

pub(crate) mod format;

use vnode::{Errno, Result, zeros};

use crate::fat::format::{ENTRY_SIZE, EntrySlot, Link, ShortName};

use super::volume::run::Run;
use super::volume::storage::Storage;
use super::volume::table::Table;
use format::{BLOCK_SIZE, JournalBlock, checksum};

/// Name of the journal in the root directory.
pub(crate) const JOURNAL_NAME: ShortName = ShortName(*b"PLYFS   JNL");

/// Largest journal that is read, in bytes.
const SIZE_MAX: u64 = 16 << 20;
const SIZE_MIN: u64 = 16 << 10;
const SIZE_PREFERRED: u64 = 512 << 10;
/// Part of a volume that its journal takes.
const VOLUME_PART: u64 = 64;
/// Part of a small volume that its journal takes at most.
const VOLUME_PART_MAX: u64 = 8;

/// A new value of a block on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockWrite {
    /// Offset on the device in bytes.
    pub(crate) offset: u64,
    /// Contents.
    pub(crate) bytes: [u8; BLOCK_SIZE],
}

/// What a journal holds, see [`Journal::batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    /// Nothing that is complete.
    None,
    /// Blocks that are to be written in place.
    Current(Vec<BlockWrite>),
    /// Blocks that somebody else has changed since, or entries of clusters that somebody else has freed.
    Outdated,
}

/// The journal of a volume.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Ranges on the device: offset and length in bytes.
    ranges: Vec<(u64, u64)>,
    size: u64,
    sequence: u64,
}

impl Journal {
    /// Returns the journal in these clusters of a file of `size` bytes; `None` if it is too small or too large to be one, or if a cluster
    /// is in it twice.
    pub(crate) fn new(storage: &Storage, runs: &[Run], size: u64) -> Option<Self> {
        let geometry = storage.geometry();
        let cluster_size = u64::from(geometry.cluster_size());
        let range = |run: &Run| Some((geometry.cluster_offset(run.cluster)?, u64::from(run.count) * cluster_size));
        let ranges: Vec<(u64, u64)> = runs.iter().map(range).collect::<Option<_>>()?;
        let available: u64 = ranges.iter().map(|(_, length)| length).sum();
        let mut sorted = ranges.clone();
        sorted.sort_unstable();
        let is_disjoint = sorted.is_sorted_by(|one, other| one.0 + one.1 <= other.0);
        let is_valid = Self::is_valid_size(size) && size <= available && is_disjoint;
        is_valid.then_some(Self { ranges, size, sequence: 0 })
    }

    /// Returns whether a journal can have this size in bytes.
    pub(crate) fn is_valid_size(size: u64) -> bool {
        (SIZE_MIN..=SIZE_MAX).contains(&size)
    }

    /// Returns the size that the journal of a volume should have, in bytes; `None` if the volume is too small for one.
    pub(crate) fn preferred_size(storage: &Storage) -> Option<u64> {
        let volume = storage.geometry().size();
        let size = (volume / VOLUME_PART).clamp(SIZE_MIN, SIZE_PREFERRED);
        let size = size.next_multiple_of(storage.geometry().cluster_size().into());
        (size <= volume / VOLUME_PART_MAX).then_some(size)
    }

    /// Returns the number of blocks that a batch can have.
    pub(crate) fn capacity(&self) -> usize {
        format::capacity(self.size)
    }

    /// Writes blocks so that a power failure leaves either none of them or all changed, and makes them stable. There are no more
    /// than [`Journal::capacity`].
    ///
    /// # Errors
    /// As [`Storage::write`].
    pub(crate) fn write(&mut self, storage: &Storage, blocks: &[BlockWrite]) -> Result<()> {
        let prepared = blocks.iter().map(|block| {
            let mut before = [0; BLOCK_SIZE];
            storage.read(block.offset, &mut before)?;
            Ok(JournalBlock { offset: block.offset, before: checksum(&before), bytes: block.bytes })
        });
        let prepared: Vec<JournalBlock> = prepared.collect::<Result<_>>()?;
        self.sequence = self.sequence.wrapping_add(1);
        self.put(storage, &format::encode(self.sequence, &prepared))?;
        storage.flush()?;
        write_in_place(storage, blocks)?;
        storage.flush()?;
        self.clear(storage)
    }

    /// Returns the batch that the journal holds.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn batch(&self, storage: &Storage, table: &mut Table) -> Result<Batch> {
        let Some(blocks) = self.read(storage)? else { return Ok(Batch::None) };
        let mut writes = Vec::with_capacity(blocks.len());
        for block in blocks {
            let mut current = [0; BLOCK_SIZE];
            storage.read(block.offset, &mut current)?;
            let is_current = current == block.bytes || checksum(&current) == block.before;
            if !is_current || names_free_cluster(storage, table, (block.offset, &current, &block.bytes))? {
                return Ok(Batch::Outdated);
            }
            writes.push(BlockWrite { offset: block.offset, bytes: block.bytes });
        }
        Ok(Batch::Current(writes))
    }

    /// Writes the blocks of the batch that the journal holds in place, and forgets it.
    ///
    /// # Errors
    /// As [`Storage::write`].
    pub(crate) fn apply(&self, storage: &Storage, batch: &[BlockWrite]) -> Result<()> {
        write_in_place(storage, batch)?;
        storage.flush()?;
        self.discard(storage)
    }

    /// Forgets the batch that the journal holds, and makes that stable.
    ///
    /// # Errors
    /// As [`Storage::write`].
    pub(crate) fn discard(&self, storage: &Storage) -> Result<()> {
        self.clear(storage)?;
        storage.flush()
    }

    /// Returns whether the journal was written by a later version of this base, which leaves it to that.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn is_of_other_version(&self, storage: &Storage) -> Result<bool> {
        let mut header = [0; BLOCK_SIZE];
        let offset = self.ranges.first().map_or(0, |(offset, _)| *offset);
        storage.read(offset, &mut header)?;
        Ok(format::is_of_other_version(&header))
    }

    /// Returns the blocks of the batch that the journal holds; `None` if it has no complete one.
    fn read(&self, storage: &Storage) -> Result<Option<Vec<JournalBlock>>> {
        let mut bytes = zeros(usize::try_from(self.size).map_err(|_| Errno::ENOMEM)?)?;
        let mut done = 0;
        for &(offset, length) in &self.ranges {
            let length = length.min(self.size - done);
            storage.read(offset, &mut bytes[done as usize..(done + length) as usize])?;
            done += length;
        }
        let batch = format::decode(&bytes).map(|(_, blocks)| blocks);
        let is_inside = |block: &JournalBlock| {
            block.offset.is_multiple_of(BLOCK_SIZE as u64) && block.offset < storage.geometry().size()
        };
        Ok(batch.filter(|blocks| blocks.iter().all(is_inside)))
    }

    /// Writes to the journal from its start.
    fn put(&self, storage: &Storage, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        for &(offset, length) in &self.ranges {
            let (part, after) = rest.split_at(rest.len().min(usize::try_from(length).unwrap_or(usize::MAX)));
            if !part.is_empty() {
                storage.write(offset, part)?;
            }
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(Errno::ENOSPC) }
    }

    /// Forgets the batch. It is stable only after the next flush, which precedes any other change of the same blocks.
    fn clear(&self, storage: &Storage) -> Result<()> {
        self.put(storage, &[0; BLOCK_SIZE])
    }
}

/// Returns whether an entry that a block of directories would get begins with a free cluster. The clusters of entries in a batch were
/// allocated on the disk before; if they no longer are, a check has freed them in between.
fn names_free_cluster(
    storage: &Storage,
    table: &mut Table,
    (offset, current, new): (u64, &[u8; BLOCK_SIZE], &[u8; BLOCK_SIZE]),
) -> Result<bool> {
    let geometry = storage.geometry();
    let is_in_tables = geometry
        .used_fats()
        .filter_map(|table| geometry.fat_offset(table))
        .any(|start| (start..start.saturating_add(geometry.fat_size())).contains(&offset));
    if is_in_tables {
        return Ok(false);
    }
    let slots = new.as_chunks::<ENTRY_SIZE>().0.iter().zip(current.as_chunks::<ENTRY_SIZE>().0);
    for (slot, _) in slots.filter(|(slot, before)| slot != before) {
        let EntrySlot::Entry(entry) = EntrySlot::decode(slot) else { continue };
        let cluster = entry.first_cluster(geometry.width());
        if geometry.contains(cluster) && table.link(storage, cluster)? == Link::Free {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes blocks in place, neighbours at once.
pub(crate) fn write_in_place(storage: &Storage, blocks: &[BlockWrite]) -> Result<()> {
    let mut sorted: Vec<&BlockWrite> = blocks.iter().collect();
    sorted.sort_unstable_by_key(|block| block.offset);
    let groups = sorted.chunk_by(|one, other| one.offset + BLOCK_SIZE as u64 == other.offset);
    for group in groups {
        let bytes: Vec<u8> = group.iter().flat_map(|block| block.bytes).collect();
        if let Some(first) = group.first() {
            storage.write(first.offset, &bytes)?;
        }
    }
    Ok(())
}
