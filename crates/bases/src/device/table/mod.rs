//! Partition tables: MBR with logical partitions, and GPT.

mod entry;
mod error;
mod gpt;
mod guid;
mod mbr;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

pub use entry::{PartitionEntry, PartitionKind};
pub use error::TableError;

use super::{Device, SECTOR_SIZE_MIN};
use mbr::BootSector;

/// The partitions of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTable {
    /// Size in bytes of the sectors that the table counts.
    pub sector_size: u32,
    /// The partitions, by number.
    pub entries: Vec<PartitionEntry>,
}

/// Sizes in bytes of the sectors that tables count.
const SECTOR_SIZES: [u32; 2] = [SECTOR_SIZE_MIN, 4096];

impl PartitionTable {
    /// Reads the table of a device; `None` if it has none. A GPT counts only if the boot sector protects it; if its first copy is
    /// damaged, the second one at the end of the device is read.
    ///
    /// If the device does not determine the size of the sectors, that is where a GPT is found, and 512 bytes for an MBR.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn read(device: &dyn Device) -> Result<Option<Self>, TableError> {
        let Some(boot) = BootSector::read(device)? else { return Ok(None) };
        let sector_sizes = sector_sizes(device);
        if boot.is_protective() {
            for sector_size in &sector_sizes {
                if let Some(entries) = gpt::read(device, *sector_size)? {
                    return Ok(Some(Self { sector_size: *sector_size, entries }));
                }
            }
            return Err(TableError::Damaged);
        }
        let sector_size = sector_sizes[0];
        Ok(Some(Self { sector_size, entries: mbr::read(device, &boot, sector_size)? }))
    }

    /// Returns the table as read with the other size of sectors; `None` if the device or the table determines the size, or if
    /// the table is invalid with the other one.
    pub(crate) fn with_other_sector_size(&self, device: &dyn Device) -> Option<Self> {
        let sector_size = *sector_sizes(device).iter().find(|size| **size != self.sector_size)?;
        let boot = BootSector::read(device).ok()??;
        if boot.is_protective() {
            return None;
        }
        Some(Self { sector_size, entries: mbr::read(device, &boot, sector_size).ok()? })
    }
}

/// Returns the sizes in bytes that the sectors of a device may have. Never empty.
fn sector_sizes(device: &dyn Device) -> Vec<u32> {
    match device.logical_sector_size() {
        Some(size) => vec![size.max(SECTOR_SIZE_MIN)],
        None => SECTOR_SIZES.to_vec(),
    }
}
