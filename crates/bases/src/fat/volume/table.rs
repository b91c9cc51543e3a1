//! The file allocation table: links between clusters, in memory and on the disk.

use std::ops::Range;
use std::sync::Arc;

use vnode::{Errno, Result};

use crate::fat::format::{FatWidth, Link, VolumeFlags, entry_length, entry_offset, read_entry, write_entry};

use super::pages::{BLOCK_SIZE, ChangedBlock, PAGE_SIZE, Pages};
use super::run_budget::{RUN_SIZE, RunBudget};
use super::storage::Storage;

/// Number of the free clusters below one to which they were counted.
#[derive(Clone, Copy, Debug, Default)]
struct FreeCount {
    counted_to: u32,
    count: u32,
}

/// The table of a volume. What it says is right for the objects in memory; the disk follows at each synchronization.
pub(crate) struct Table {
    pages: Pages,
    free: FreeCount,
    /// No cluster below this one is free and not held for somebody.
    lowest_free: u32,
    /// An entry was changed that crosses the end of a block.
    has_split_entry: bool,
    /// Memory for what is known of the chains of files.
    run_budget: Arc<RunBudget>,
}

impl Table {
    /// Returns the table of a volume, which takes about `memory` bytes, of which a quarter is for what is known of the chains of files.
    pub(crate) fn new(memory: u64) -> Self {
        let for_runs = memory / 4;
        let runs_max = usize::try_from(for_runs).unwrap_or(usize::MAX) / RUN_SIZE;
        Self {
            pages: Pages::new(memory - for_runs),
            free: FreeCount::default(),
            lowest_free: 0,
            has_split_entry: false,
            run_budget: RunBudget::new(runs_max),
        }
    }

    /// Returns the memory for what is known of the chains of files.
    pub(crate) fn run_budget(&self) -> &Arc<RunBudget> {
        &self.run_budget
    }

    /// Returns the link of a cluster.
    ///
    /// # Errors
    /// `EIO` for a cluster that does not exist, or that cannot be read.
    pub(crate) fn link(&mut self, storage: &Storage, cluster: u32) -> Result<Link> {
        if !storage.geometry().contains(cluster) {
            return Err(Errno::EIO);
        }
        let width = storage.geometry().width();
        Ok(Link::decode(width, self.value(storage, cluster)?))
    }

    /// Returns the cluster after another one in its chain; `None` after the last.
    ///
    /// # Errors
    /// `EIO` for a chain that is damaged here, or a table that cannot be read.
    pub(crate) fn next(&mut self, storage: &Storage, cluster: u32) -> Result<Option<u32>> {
        match self.link(storage, cluster)? {
            Link::Next(next) if storage.geometry().contains(next) => Ok(Some(next)),
            Link::End => Ok(None),
            Link::Next(next) => Err(storage.damage("link-missing", format_args!("cluster {cluster} leads to {next}"))),
            Link::Free => Err(storage.damage("link-free", format_args!("a chain leads to the free cluster {cluster}"))),
            Link::Bad => Err(storage.damage("link-bad", format_args!("a chain leads to the bad cluster {cluster}"))),
        }
    }

    /// Sets the link of a cluster.
    ///
    /// # Errors
    /// As [`Table::link`].
    pub(crate) fn set_link(&mut self, storage: &Storage, cluster: u32, link: Link) -> Result<()> {
        if !storage.geometry().contains(cluster) {
            return Err(Errno::EIO);
        }
        let width = storage.geometry().width();
        let before = Link::decode(width, self.value(storage, cluster)?);
        self.set_value(storage, cluster, link.encode(width))?;
        let is_counted = u32::from(cluster < self.free.counted_to);
        match (before, link) {
            (Link::Free, Link::Free) => {}
            (Link::Free, _) => self.free.count = self.free.count.saturating_sub(is_counted),
            (_, Link::Free) => {
                self.free.count = self.free.count.saturating_add(is_counted);
                self.lowest_free = self.lowest_free.min(cluster);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the state of the volume in the table; `None` on FAT12.
    ///
    /// # Errors
    /// As [`Table::link`].
    pub(crate) fn flags(&mut self, storage: &Storage) -> Result<Option<VolumeFlags>> {
        let width = storage.geometry().width();
        Ok(VolumeFlags::decode(width, self.value(storage, 1)?))
    }

    /// Sets the state of the volume in the table. FAT12 has none.
    ///
    /// # Errors
    /// As [`Table::link`].
    pub(crate) fn set_flags(&mut self, storage: &Storage, flags: VolumeFlags) -> Result<()> {
        let width = storage.geometry().width();
        if width == FatWidth::Fat12 {
            return Ok(());
        }
        let value = self.value(storage, 1)?;
        self.set_value(storage, 1, flags.encode(width, value))
    }

    /// Returns the number of free clusters. Until all were counted, this reads up to `pages_max` pages of the table from where the last
    /// call ended, and returns `None`.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn count_free(&mut self, storage: &Storage, pages_max: u32) -> Result<Option<u32>> {
        let geometry = storage.geometry();
        let width = geometry.width();
        for _ in 0..pages_max {
            let mut cluster = self.free.counted_to.max(geometry.cluster_numbers().start);
            if cluster >= geometry.cluster_numbers().end {
                return Ok(Some(self.free.count));
            }
            let (number, _) = place_of(width, cluster);
            let read;
            let bytes = match self.pages.cached(number) {
                Some(bytes) => bytes,
                None => {
                    read = self.pages.read(storage, number)?;
                    &read
                }
            };
            let mut free = 0;
            while cluster < geometry.cluster_numbers().end {
                let (page, offset) = place_of(width, cluster);
                if page != number {
                    break;
                }
                let value = read_entry(width, cluster, bytes.get(offset..).unwrap_or_default());
                free += u32::from(value == Some(0));
                cluster += 1;
            }
            self.free = FreeCount { counted_to: cluster, count: self.free.count.saturating_add(free) };
        }
        Ok(None)
    }

    /// Returns the first free cluster in a range, from its start or from its end, that `is_usable` accepts.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn find_free(
        &mut self,
        storage: &Storage,
        range: Range<u32>,
        is_backward: bool,
        is_usable: &dyn Fn(u32) -> bool,
    ) -> Result<Option<u32>> {
        let width = storage.geometry().width();
        let mut left = range;
        while !left.is_empty() {
            let first = if is_backward { left.end - 1 } else { left.start };
            let (number, _) = place_of(width, first);
            let bytes = self.pages.get(storage, number)?;
            while !left.is_empty() {
                let cluster = if is_backward { left.end - 1 } else { left.start };
                let (page, offset) = place_of(width, cluster);
                if page != number {
                    break;
                }
                let value = read_entry(width, cluster, bytes.get(offset..).unwrap_or_default());
                if value == Some(0) && is_usable(cluster) {
                    return Ok(Some(cluster));
                }
                if is_backward {
                    left.end -= 1;
                } else {
                    left.start += 1;
                }
            }
        }
        Ok(None)
    }

    /// Returns a cluster below which none is free, except those that are held for somebody.
    pub(crate) fn lowest_free(&self) -> u32 {
        self.lowest_free
    }

    /// Notes that no cluster below this one is free, except those that are held for somebody.
    pub(crate) fn set_lowest_free(&mut self, cluster: u32) {
        self.lowest_free = cluster;
    }

    /// Returns whether the disk lacks a change.
    pub(crate) fn is_dirty(&self) -> bool {
        self.pages.is_dirty()
    }

    /// Returns copies of the changed blocks, and whether an entry that crosses from one to the next is among the changes.
    pub(crate) fn take_changes(&mut self) -> (Vec<ChangedBlock>, bool) {
        (self.pages.changed_blocks(), std::mem::take(&mut self.has_split_entry))
    }

    /// Notes that what [`Table::take_changes`] returned could not be written.
    pub(crate) fn not_written(&mut self, has_split_entry: bool) {
        self.has_split_entry |= has_split_entry;
    }

    /// Notes that these blocks are on the disk, in all copies of the table or only in the first.
    pub(crate) fn written(&mut self, blocks: &[ChangedBlock], is_mirrored: bool) {
        for block in blocks {
            self.pages.set_clean(block, is_mirrored);
        }
    }

    /// Returns copies of the blocks that the other copies of the table lack.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn unmirrored_blocks(&mut self, storage: &Storage) -> Result<Vec<ChangedBlock>> {
        let offsets = self.pages.unmirrored();
        let block = |offset: u64| {
            let number = (offset / PAGE_SIZE as u64) as u32;
            let start = (offset % PAGE_SIZE as u64) as usize;
            let bytes = self.pages.get(storage, number)?[start..start + BLOCK_SIZE].to_vec();
            Ok(ChangedBlock { offset, bytes })
        };
        offsets.into_iter().map(block).collect()
    }

    fn value(&mut self, storage: &Storage, cluster: u32) -> Result<u32> {
        let width = storage.geometry().width();
        let (number, offset) = place_of(width, cluster);
        let bytes = self.pages.get(storage, number)?;
        read_entry(width, cluster, bytes.get(offset..).unwrap_or_default()).ok_or(Errno::EIO)
    }

    fn set_value(&mut self, storage: &Storage, cluster: u32, value: u32) -> Result<()> {
        let width = storage.geometry().width();
        let (number, offset) = place_of(width, cluster);
        let length = entry_length(width);
        self.has_split_entry |= offset / BLOCK_SIZE != (offset + length - 1) / BLOCK_SIZE;
        self.pages.change(storage, number, (offset, length), |bytes| {
            write_entry(width, cluster, bytes, value);
        })
    }
}

/// Returns the page that has the entry of a cluster, and the entry's offset in it. No entry crosses the end of a page.
fn place_of(width: FatWidth, cluster: u32) -> (u32, usize) {
    let offset = entry_offset(width, cluster);
    ((offset / PAGE_SIZE as u64) as u32, (offset % PAGE_SIZE as u64) as usize)
}
