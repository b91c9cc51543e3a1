//! Slots: the 32-byte units of a directory in memory, and which blocks of them have changed.

use std::collections::{BTreeSet, HashSet};

use crate::fat::format::{ENTRY_SIZE, EntrySlot};
use crate::fat::journal::BlockWrite;
use crate::fat::journal::format::BLOCK_SIZE;

use super::extents::Extents;

/// Maximum number of slots of a directory.
pub(crate) const SLOTS_MAX: u32 = 65_536;

const SLOTS_PER_BLOCK: u32 = (BLOCK_SIZE / ENTRY_SIZE) as u32;

/// The slots of a directory.
///
/// Invariant: from `end` on all slots are zero, which means free.
#[derive(Debug)]
pub(crate) struct Slots {
    bytes: Vec<u8>,
    extents: Extents,
    /// The first slot that was never used.
    end: u32,
    /// The disk has something else than zeros after the end.
    is_stale: bool,
    /// Number of deleted slots before the end.
    deleted: u32,
    /// A group of this many free slots was looked for before the end without success.
    missing_gap: u32,
    /// Blocks that differ from the disk.
    dirty: BTreeSet<u32>,
}

impl Slots {
    /// Returns the slots that were read from these extents.
    pub(crate) fn new(mut bytes: Vec<u8>, extents: Extents) -> Self {
        bytes.truncate(bytes.len().min(SLOTS_MAX as usize * ENTRY_SIZE) / ENTRY_SIZE * ENTRY_SIZE);
        let (slots, _) = bytes.as_chunks_mut::<ENTRY_SIZE>();
        let end = slots.iter().position(|slot| slot[0] == 0).unwrap_or(slots.len());
        let deleted = slots[..end].iter().filter(|slot| slot[0] == EntrySlot::DELETED).count() as u32;
        let after = &mut slots[end..];
        let is_stale = after.iter().flatten().any(|&byte| byte != 0);
        after.fill([0; ENTRY_SIZE]);
        Self { bytes, extents, end: end as u32, is_stale, deleted, missing_gap: u32::MAX, dirty: BTreeSet::new() }
    }

    /// Returns the number of slots that there is room for.
    pub(crate) fn capacity(&self) -> u32 {
        (self.bytes.len() / ENTRY_SIZE) as u32
    }

    /// Returns the first slot that was never used.
    #[cfg(test)]
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Returns the memory that the slots take, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    /// Returns the bytes of a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&[u8; ENTRY_SIZE]> {
        self.bytes.get(slot as usize * ENTRY_SIZE..)?.first_chunk()
    }

    /// Sets the bytes of a slot before the end. Returns the number of blocks that did not differ from the disk before.
    pub(crate) fn set(&mut self, slot: u32, value: &[u8; ENTRY_SIZE]) -> usize {
        let Some(bytes) = self.bytes.get_mut(slot as usize * ENTRY_SIZE..).and_then(|rest| rest.first_chunk_mut())
        else {
            return 0;
        };
        if bytes == value {
            return 0;
        }
        *bytes = *value;
        self.mark(slot)
    }

    /// Frees slots from `first` to `last`. Returns the number of blocks that did not differ from the disk before.
    pub(crate) fn delete(&mut self, first: u32, last: u32) -> usize {
        let mut changed = 0;
        for slot in first..=last {
            if let Some(bytes) = self.bytes.get_mut(slot as usize * ENTRY_SIZE) {
                *bytes = EntrySlot::DELETED;
                self.deleted += 1;
                changed += self.mark(slot);
            }
        }
        self.missing_gap = u32::MAX;
        changed
    }

    /// Returns the first of `count` free slots that follow each other; `None` if the directory has to grow.
    pub(crate) fn find_free(&mut self, count: u32) -> Option<u32> {
        if count <= self.deleted && count < self.missing_gap {
            let mut length = 0;
            for slot in 0..self.end {
                let is_free = self.get(slot).is_some_and(|bytes| bytes[0] == EntrySlot::DELETED);
                length = if is_free { length + 1 } else { 0 };
                if length == count {
                    return Some(slot + 1 - count);
                }
            }
            self.missing_gap = count;
        }
        let end = self.end.checked_add(count)?;
        (end <= self.capacity()).then_some(self.end)
    }

    /// Sets free slots from `first` on. Returns the number of blocks that did not differ from the disk before.
    pub(crate) fn fill(&mut self, first: u32, values: &[[u8; ENTRY_SIZE]]) -> usize {
        let mut changed = 0;
        for (slot, value) in (first..).zip(values) {
            if slot < self.end {
                self.deleted -= 1;
            } else {
                self.end = slot + 1;
            }
            changed += self.set(slot, value);
        }
        if self.is_stale && self.end < self.capacity() {
            changed += self.mark(self.end);
        }
        changed
    }

    /// Adds zeros at the end, which are on the device at `offset`.
    pub(crate) fn grow(&mut self, offset: u64, length: u64) {
        self.extents.push(offset, length);
        let size = (self.extents.length() as usize).min(SLOTS_MAX as usize * ENTRY_SIZE);
        self.bytes.resize(size, 0);
    }

    /// Returns whether any block differs from the disk.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns the blocks that differ from the disk, which count as written from here on.
    pub(crate) fn take_changes(&mut self) -> Vec<BlockWrite> {
        let dirty = std::mem::take(&mut self.dirty);
        let write = |block: u32| {
            let position = block as usize * BLOCK_SIZE;
            let bytes = self.bytes.get(position..)?.first_chunk()?;
            Some(BlockWrite { offset: self.extents.offset_of(position as u64)?, bytes: *bytes })
        };
        dirty.into_iter().filter_map(write).collect()
    }

    /// Notes that blocks which were to be written are not on the disk. Returns the number of those that count as changed again.
    pub(crate) fn not_written(&mut self, offsets: &HashSet<u64>) -> usize {
        let block_count = self.bytes.len().div_ceil(BLOCK_SIZE) as u32;
        let is_lost = |block: &u32| {
            self.extents
                .offset_of(u64::from(*block) * BLOCK_SIZE as u64)
                .is_some_and(|offset| offsets.contains(&offset))
        };
        let lost: Vec<u32> = (0..block_count).filter(is_lost).collect();
        lost.into_iter().filter(|&block| self.dirty.insert(block)).count()
    }

    fn mark(&mut self, slot: u32) -> usize {
        usize::from(self.dirty.insert(slot / SLOTS_PER_BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(bytes: Vec<u8>) -> Slots {
        let mut extents = Extents::default();
        extents.push(8192, bytes.len() as u64);
        Slots::new(bytes, extents)
    }

    #[test]
    fn free_slots_are_reused_before_the_directory_grows() {
        let mut slots = slots(vec![0; 1024]);
        assert_eq!((slots.capacity(), slots.end(), slots.find_free(33)), (32, 0, None));
        assert_eq!(slots.fill(0, &[[1; 32]; 30]), 2);
        assert_eq!(slots.find_free(3), None);
        slots.delete(4, 6);
        slots.delete(10, 10);
        assert_eq!((slots.find_free(4), slots.find_free(3), slots.find_free(2)), (None, Some(4), Some(4)));
        slots.fill(4, &[[2; 32]; 3]);
        assert_eq!((slots.find_free(1), slots.find_free(2)), (Some(10), Some(30)));
        slots.grow(16384, 512);
        assert_eq!(slots.find_free(18), Some(30));
        slots.fill(30, &[[3; 32]; 18]);
        assert_eq!(slots.take_changes().iter().map(|block| block.offset).collect::<Vec<_>>(), [8192, 8704, 16384]);
        assert!(!slots.is_dirty() && slots.find_free(2).is_none());
    }

    #[test]
    fn what_follows_the_end_on_the_disk_stays_behind_an_end() {
        let mut bytes = vec![7; 1536];
        bytes[15 * 32] = 0;
        let mut slots = slots(bytes);
        assert_eq!((slots.end(), slots.find_free(1)), (15, Some(15)));
        assert_eq!(slots.fill(15, &[[1; 32]]), 2, "the next slot, in another block, ends the directory");
        let written = slots.take_changes();
        assert_eq!((written.len(), written[1].bytes[0]), (2, 0));
    }
}
