//! A partition in a partition table.

use std::fmt;

use super::error::TableError;
use super::guid::Guid;

/// A partition in a partition table, within the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionEntry {
    /// Its number, as Linux counts partitions: from 1, and from 5 for logical ones.
    pub number: u32,
    /// Offset in bytes of its first byte on the device; a multiple of 512.
    pub start: u64,
    /// Its size in bytes; not 0.
    pub size: u64,
    /// Its declared contents.
    pub kind: PartitionKind,
}

/// Contents that a partition is declared to have, which need not be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionKind {
    /// The type byte of an MBR.
    Mbr(u8),
    /// The type GUID of a GPT.
    Gpt(Guid),
}

impl fmt::Display for PartitionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mbr(kind) => write!(formatter, "{kind:02x}"),
            Self::Gpt(kind) => kind.fmt(formatter),
        }
    }
}

/// Sectors of a device, from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sectors {
    /// Number of the first sector.
    pub start: u64,
    /// Number of sectors.
    pub count: u64,
    /// Size of a sector in bytes.
    pub size: u32,
}

impl PartitionEntry {
    /// Returns the partition on these sectors of a device of `device_size` bytes.
    ///
    /// # Errors
    /// [`TableError::OutOfRange`] if it does not end within the device.
    pub(crate) fn new(
        number: u32,
        sectors: Sectors,
        kind: PartitionKind,
        device_size: u64,
    ) -> Result<Self, TableError> {
        let bytes = |count: u64| count.checked_mul(u64::from(sectors.size));
        let entry = bytes(sectors.start).zip(bytes(sectors.count)).and_then(|(start, size)| {
            let end = start.checked_add(size)?;
            (end <= device_size && size > 0).then_some(Self { number, start, size, kind })
        });
        entry.ok_or(TableError::OutOfRange(number))
    }
}
