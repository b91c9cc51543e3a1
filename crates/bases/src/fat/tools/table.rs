//! The file allocation tables as tools read and write them: through a cache, and all copies alike.

use std::collections::HashMap;
use std::ops::Range;

use super::disk::Disk;
use super::error::ToolError;
use crate::fat::format::{Geometry, Link, entry_offset, read_entry, write_entry};

/// Size in bytes of what is read at once: whole sectors, and whole entries of every width.
const BLOCK: u64 = 48 * 1024;
/// Number of blocks in memory.
const BLOCKS_MAX: usize = 64;

/// The tables in use. Changes are in memory until [`Table::write_back`] or until there is no more room for them.
pub(crate) struct Table {
    disk: Disk,
    geometry: Geometry,
    blocks: Vec<Block>,
    /// Index of the block of the last access.
    recent: usize,
    /// Number of accesses so far.
    clock: u64,
    /// The table that each sector is read from; the first one in use for those not listed.
    sources: HashMap<u32, u8>,
}

struct Block {
    /// Offset in units of the size of a block.
    number: u64,
    bytes: Vec<u8>,
    /// Bytes that have changed.
    changed: Range<usize>,
    used: u64,
}

impl Table {
    /// Returns the tables of a file system.
    pub(crate) fn new(disk: Disk, geometry: Geometry) -> Self {
        Self { disk, geometry, blocks: Vec::new(), recent: 0, clock: 0, sources: HashMap::new() }
    }

    /// Reads this sector of the tables from another one of them from now on.
    pub(crate) fn set_source(&mut self, sector: u32, table: u8) {
        self.sources.insert(sector, table);
        self.blocks.clear();
    }

    /// Returns what the entry of a cluster says.
    ///
    /// # Errors
    /// If the cluster does not exist, or no table can be read.
    pub(crate) fn get(&mut self, cluster: u32) -> Result<Link, ToolError> {
        self.value(cluster).map(|value| Link::decode(self.geometry.width(), value))
    }

    /// Returns the value of an entry, also of those before the first cluster.
    pub(crate) fn value(&mut self, cluster: u32) -> Result<u32, ToolError> {
        let width = self.geometry.width();
        let (block, within) = self.block_of(cluster)?;
        let value = block.bytes.get(within..).and_then(|bytes| read_entry(width, cluster, bytes));
        value.ok_or(ToolError::NoCluster(cluster))
    }

    /// Sets what the entry of a cluster says.
    pub(crate) fn set(&mut self, cluster: u32, link: Link) -> Result<(), ToolError> {
        self.set_value(cluster, link.encode(self.geometry.width()))
    }

    /// Sets the value of an entry, also of those before the first cluster.
    pub(crate) fn set_value(&mut self, cluster: u32, value: u32) -> Result<(), ToolError> {
        let width = self.geometry.width();
        let (block, within) = self.block_of(cluster)?;
        let bytes = block.bytes.get_mut(within..).ok_or(ToolError::NoCluster(cluster))?;
        write_entry(width, cluster, bytes, value).ok_or(ToolError::NoCluster(cluster))?;
        let end = within + crate::fat::format::entry_length(width);
        block.changed = match block.changed.is_empty() {
            true => within..end,
            false => block.changed.start.min(within)..block.changed.end.max(end),
        };
        Ok(())
    }

    /// Writes all changes to the tables in use.
    pub(crate) fn write_back(&mut self) -> Result<(), ToolError> {
        self.blocks.sort_unstable_by_key(|block| block.number);
        (0..self.blocks.len()).try_for_each(|index| self.write_block(index))
    }

    /// Returns the block with the entry of a cluster, and the offset in it.
    fn block_of(&mut self, cluster: u32) -> Result<(&mut Block, usize), ToolError> {
        if cluster >= self.geometry.cluster_numbers().end {
            return Err(ToolError::NoCluster(cluster));
        }
        let offset = entry_offset(self.geometry.width(), cluster);
        let number = offset / BLOCK;
        if self.blocks.get(self.recent).is_none_or(|block| block.number != number) {
            self.recent = match self.blocks.iter().position(|block| block.number == number) {
                Some(index) => index,
                None => self.add_block(number)?,
            };
        }
        self.clock += 1;
        let block = self.blocks.get_mut(self.recent).ok_or(ToolError::NoCluster(cluster))?;
        block.used = self.clock;
        Ok((block, (offset % BLOCK) as usize))
    }

    /// Reads a block in place of the one that was not used for longest, if there is no more room. Returns its index.
    fn add_block(&mut self, number: u64) -> Result<usize, ToolError> {
        let oldest = self.blocks.iter().enumerate().min_by_key(|(_, block)| block.used).map(|(index, _)| index);
        if let Some(index) = oldest.filter(|_| self.blocks.len() >= BLOCKS_MAX) {
            self.write_block(index)?;
            self.blocks.swap_remove(index);
        }
        let bytes = self.load(number)?;
        self.blocks.push(Block { number, bytes, changed: 0..0, used: 0 });
        Ok(self.blocks.len() - 1)
    }

    /// Reads a block from the first table in use; sectors that cannot be read, or have another source, from the others.
    fn load(&self, number: u64) -> Result<Vec<u8>, ToolError> {
        let start = number * BLOCK;
        let length = self.geometry.fat_size().saturating_sub(start).min(BLOCK) as usize;
        let mut bytes = vec![0; length];
        let first = self.geometry.used_fats().start;
        if self.sources.is_empty() && self.disk.read(self.table_offset(first, start), &mut bytes).is_ok() {
            return Ok(bytes);
        }
        let sector_size = self.geometry.bytes_per_sector();
        let first_sector = (start / u64::from(sector_size)) as u32;
        for (sector, part) in (first_sector..).zip(bytes.chunks_mut(sector_size as usize)) {
            self.load_sector(sector, part)?;
        }
        Ok(bytes)
    }

    fn load_sector(&self, sector: u32, buffer: &mut [u8]) -> Result<(), ToolError> {
        let used = self.geometry.used_fats();
        let preferred = self.sources.get(&sector).copied().unwrap_or(used.start);
        let start = u64::from(sector) * u64::from(self.geometry.bytes_per_sector());
        let result = self.disk.read(self.table_offset(preferred, start), buffer);
        let mut others = used.filter(|&table| table != preferred);
        if result.is_err() && others.any(|table| self.disk.read(self.table_offset(table, start), buffer).is_ok()) {
            return Ok(());
        }
        result
    }

    fn table_offset(&self, table: u8, within: u64) -> u64 {
        self.geometry.reserved_size() + u64::from(table) * self.geometry.fat_size() + within
    }

    /// Writes the sectors of a block that have changed.
    fn write_block(&mut self, index: usize) -> Result<(), ToolError> {
        let sector = self.geometry.bytes_per_sector() as usize;
        let Some(block) = self.blocks.get(index).filter(|block| !block.changed.is_empty()) else { return Ok(()) };
        let start = block.changed.start / sector * sector;
        let end = block.changed.end.next_multiple_of(sector).min(block.bytes.len());
        let bytes = block.bytes.get(start..end).unwrap_or_default();
        for table in self.geometry.used_fats() {
            self.disk.write(self.table_offset(table, block.number * BLOCK + start as u64), bytes)?;
        }
        if let Some(block) = self.blocks.get_mut(index) {
            block.changed = 0..0;
        }
        Ok(())
    }
}
