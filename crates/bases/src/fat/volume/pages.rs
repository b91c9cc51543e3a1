//! Pages of the file allocation table in memory: read on demand, and forgotten when there are too many.

use std::collections::{BTreeSet, HashMap};

use vnode::{Result, zeros};

use super::storage::Storage;

/// Size of a page in bytes: entries of every width fill it exactly.
pub(crate) const PAGE_SIZE: usize = 6144;

/// Unit in which pages are written, in bytes.
pub(crate) const BLOCK_SIZE: usize = 512;

/// Pages that are kept at least.
const PAGES_MIN: usize = 8;

/// A part of the table.
struct Page {
    bytes: Box<[u8]>,
    /// A bit for each block that differs from the disk.
    dirty: u16,
    /// Time of the last use.
    used: u64,
}

/// A changed block of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangedBlock {
    /// Offset in the table in bytes.
    pub(crate) offset: u64,
    /// Contents.
    pub(crate) bytes: Vec<u8>,
}

/// The pages in memory.
pub(crate) struct Pages {
    pages: HashMap<u32, Page>,
    pages_max: usize,
    clock: u64,
    /// Offsets of blocks that the other copies of the table lack.
    unmirrored: BTreeSet<u64>,
}

impl Pages {
    /// Returns an empty set of pages, which takes about `memory` bytes unless more pages have changed.
    pub(crate) fn new(memory: u64) -> Self {
        let pages_max = usize::try_from(memory).unwrap_or(usize::MAX) / PAGE_SIZE;
        Self { pages: HashMap::new(), pages_max: pages_max.max(PAGES_MIN), clock: 0, unmirrored: BTreeSet::new() }
    }

    /// Returns the bytes of a page, which are zero after the end of the table.
    ///
    /// # Errors
    /// `EIO` if no copy of the table can be read; `ENOMEM`.
    pub(crate) fn get(&mut self, storage: &Storage, number: u32) -> Result<&[u8]> {
        self.load(storage, number).map(|page| &*page.bytes)
    }

    /// Returns the bytes of a page if it is in memory.
    pub(crate) fn cached(&self, number: u32) -> Option<&[u8]> {
        self.pages.get(&number).map(|page| &*page.bytes)
    }

    /// Changes bytes of a page by `change`, which is passed those from `offset` on, and touches no more than `length` of them.
    ///
    /// # Errors
    /// As [`Pages::get`].
    pub(crate) fn change(
        &mut self,
        storage: &Storage,
        number: u32,
        (offset, length): (usize, usize),
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let page = self.load(storage, number)?;
        change(page.bytes.get_mut(offset..).unwrap_or_default());
        for block in offset / BLOCK_SIZE..=(offset + length - 1) / BLOCK_SIZE {
            page.dirty |= 1 << block;
        }
        Ok(())
    }

    /// Returns whether any block differs from the disk.
    pub(crate) fn is_dirty(&self) -> bool {
        self.pages.values().any(|page| page.dirty != 0)
    }

    /// Returns copies of the changed blocks in order. They stay changed until [`Pages::set_clean`].
    pub(crate) fn changed_blocks(&self) -> Vec<ChangedBlock> {
        let mut numbers: Vec<u32> =
            self.pages.iter().filter(|(_, page)| page.dirty != 0).map(|(&number, _)| number).collect();
        numbers.sort_unstable();
        let mut blocks = Vec::new();
        for number in numbers {
            let Some(page) = self.pages.get(&number) else { continue };
            let changed = (0..PAGE_SIZE / BLOCK_SIZE).filter(|block| page.dirty & 1 << block != 0);
            blocks.extend(changed.map(|block| {
                let start = block * BLOCK_SIZE;
                let offset = u64::from(number) * PAGE_SIZE as u64 + start as u64;
                ChangedBlock { offset, bytes: page.bytes[start..start + BLOCK_SIZE].to_vec() }
            }));
        }
        blocks
    }

    /// Returns the offsets of the blocks that the other copies of the table lack.
    pub(crate) fn unmirrored(&self) -> Vec<u64> {
        self.unmirrored.iter().copied().collect()
    }

    /// Reads a page from the first copy of the table that can be read and has all of it.
    ///
    /// # Errors
    /// As [`Pages::get`].
    pub(crate) fn read(&self, storage: &Storage, number: u32) -> Result<Vec<u8>> {
        let start = u64::from(number) * PAGE_SIZE as u64;
        let is_mirrored = self.unmirrored.range(start..start + PAGE_SIZE as u64).next().is_none();
        read_page(storage, number, is_mirrored)
    }

    /// Notes that a block is on the disk as it was copied, in all copies of the table or only in the first; one that has changed since
    /// stays changed.
    pub(crate) fn set_clean(&mut self, block: &ChangedBlock, is_mirrored: bool) {
        if is_mirrored {
            self.unmirrored.remove(&block.offset);
        } else {
            self.unmirrored.insert(block.offset);
        }
        let number = (block.offset / PAGE_SIZE as u64) as u32;
        let start = (block.offset % PAGE_SIZE as u64) as usize;
        if let Some(page) = self.pages.get_mut(&number)
            && page.bytes.get(start..start + BLOCK_SIZE) == Some(&block.bytes)
        {
            page.dirty &= !(1 << (start / BLOCK_SIZE));
        }
    }

    fn load(&mut self, storage: &Storage, number: u32) -> Result<&mut Page> {
        self.clock += 1;
        if !self.pages.contains_key(&number) {
            if self.pages.len() >= self.pages_max {
                self.forget_unused();
            }
            let bytes = self.read(storage, number)?.into_boxed_slice();
            self.pages.insert(number, Page { bytes, dirty: 0, used: 0 });
        }
        let used = self.clock;
        let page = self.pages.entry(number).or_insert_with(|| Page { bytes: Box::default(), dirty: 0, used });
        page.used = used;
        Ok(page)
    }

    /// Forgets the half of the unchanged pages that was not used for longest.
    fn forget_unused(&mut self) {
        let mut used: Vec<u64> = self.pages.values().filter(|page| page.dirty == 0).map(|page| page.used).collect();
        if used.is_empty() {
            return;
        }
        let middle = used.len() / 2;
        let (_, &mut limit, _) = used.select_nth_unstable(middle);
        self.pages.retain(|_, page| page.dirty != 0 || page.used > limit);
    }
}

/// Reads a page from the first copy of the table that can be read, or from the first copy unless the others have the same.
fn read_page(storage: &Storage, number: u32, is_mirrored: bool) -> Result<Vec<u8>> {
    let geometry = storage.geometry();
    let mut bytes = zeros(PAGE_SIZE)?;
    let start = u64::from(number) * PAGE_SIZE as u64;
    let length = geometry.fat_size().saturating_sub(start).min(PAGE_SIZE as u64) as usize;
    let mut result = Ok(());
    for table in geometry.used_fats() {
        let Some(offset) = geometry.fat_offset(table) else { continue };
        result = storage.read(offset + start, &mut bytes[..length]);
        if result.is_ok() || !is_mirrored {
            break;
        }
    }
    result.map(|()| bytes)
}
