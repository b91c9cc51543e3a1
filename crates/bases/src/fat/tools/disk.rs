//! Access of tools to a device, with errors that say where.

use std::ops::Range;

use vnode::Errno;

use super::error::ToolError;
use crate::device::DeviceRef;
use crate::fat::format::{BOOT_SECTOR_SIZE, EntrySlot};

/// A device that tools read and write.
#[derive(Clone)]
pub(crate) struct Disk(pub(crate) DeviceRef);

impl Disk {
    /// Fills the buffer from an offset.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ToolError> {
        self.0.read_at(offset, buffer).map_err(|errno| ToolError::Read { offset, errno })
    }

    /// Writes at an offset.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), ToolError> {
        self.0.write_at(offset, data).map_err(|errno| match errno {
            Errno::EROFS => ToolError::ReadOnly,
            errno => ToolError::Write { offset, errno },
        })
    }

    /// Makes everything written so far stable.
    pub(crate) fn flush(&self) -> Result<(), ToolError> {
        self.0.flush().map_err(ToolError::Flush)
    }

    /// Reads what the format defines of a boot or information sector.
    pub(crate) fn read_sector(&self, offset: u64) -> Result<[u8; BOOT_SECTOR_SIZE], ToolError> {
        let mut sector = [0; BOOT_SECTOR_SIZE];
        self.read(offset, &mut sector)?;
        Ok(sector)
    }

    /// Fills the buffer from an offset as far as it can be read, sector by sector, and the rest with `filler`. Returns the
    /// parts of the buffer that cannot be read.
    pub(crate) fn read_available(
        &self,
        offset: u64,
        buffer: &mut [u8],
        sector: usize,
        filler: u8,
    ) -> Vec<Range<usize>> {
        if self.read(offset, buffer).is_ok() {
            return Vec::new();
        }
        let mut lost: Vec<Range<usize>> = Vec::new();
        let mut position = 0;
        for part in buffer.chunks_mut(sector.max(1)) {
            let range = position..position + part.len();
            if self.read(offset + position as u64, part).is_err() {
                part.fill(filler);
                match lost.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => lost.push(range.clone()),
                }
            }
            position = range.end;
        }
        lost
    }

    /// Reads part of a directory as far as it can be read; what cannot, seems to be deleted entries.
    pub(crate) fn read_entries(&self, offset: u64, buffer: &mut [u8], sector: usize) -> Vec<Range<usize>> {
        self.read_available(offset, buffer, sector, EntrySlot::DELETED)
    }
}
