//! MBR partition tables: four primary partitions, and lists of logical ones in extended partitions.

use super::super::Device;
use super::entry::{PartitionEntry, PartitionKind, Sectors};
use super::error::TableError;

/// Size in bytes of the part of a sector that has the table, whatever the size of the sector.
const TABLE_SECTOR_SIZE: usize = 512;
const ENTRIES_OFFSET: usize = 446;
const ENTRY_SIZE: usize = 16;
const ENTRY_COUNT: usize = 4;
const SIGNATURE_OFFSET: usize = 510;
const SIGNATURE: [u8; 2] = [0x55, 0xaa];

const _: () = assert!(ENTRIES_OFFSET + ENTRY_COUNT * ENTRY_SIZE == SIGNATURE_OFFSET);

/// Type of an unused entry.
const UNUSED: u8 = 0;
/// Types of extended partitions.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// Type of the entry that protects a GPT from programs which do not know it.
const PROTECTIVE: u8 = 0xee;

/// Number of the first logical partition.
const FIRST_LOGICAL: u32 = 5;
/// Maximum number of logical partitions.
const LOGICAL_MAX: usize = 128;

/// An entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    status: u8,
    kind: u8,
    /// First sector, counted from where the table says.
    start: u32,
    /// Number of sectors.
    count: u32,
}

impl Entry {
    fn is_used(&self) -> bool {
        self.kind != UNUSED && self.count > 0
    }

    fn is_extended(&self) -> bool {
        self.is_used() && EXTENDED.contains(&self.kind)
    }
}

/// A sector with a table: the boot sector, or one of a logical partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BootSector {
    entries: [Entry; ENTRY_COUNT],
}

impl BootSector {
    /// Reads the boot sector of a device; `None` if it has no table.
    ///
    /// # Errors
    /// [`TableError::Device`].
    pub(crate) fn read(device: &dyn Device) -> Result<Option<Self>, TableError> {
        if device.size() < TABLE_SECTOR_SIZE as u64 { Ok(None) } else { Ok(Self::parse(&read_sector(device, 0)?)) }
    }

    /// Returns the table in a sector. The signature alone is also that of file systems that can be booted from; in those, the
    /// bytes of the entries are program code.
    fn parse(sector: &[u8; TABLE_SECTOR_SIZE]) -> Option<Self> {
        let (entries, signature) = sector.split_at(SIGNATURE_OFFSET);
        let (entries, _) = entries.get(ENTRIES_OFFSET..)?.as_chunks::<ENTRY_SIZE>();
        let entries: [Entry; ENTRY_COUNT] = entries.iter().map(parse_entry).collect::<Vec<_>>().try_into().ok()?;
        let is_table = signature == SIGNATURE && entries.iter().all(|entry| entry.status & 0x7f == 0);
        is_table.then_some(Self { entries })
    }

    /// Returns whether the table protects a GPT.
    pub(crate) fn is_protective(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == PROTECTIVE)
    }
}

fn parse_entry(bytes: &[u8; ENTRY_SIZE]) -> Entry {
    // Three bytes each of the addresses of the first and last sector, in a form that no disk uses any more, are ignored.
    let [status, _, _, _, kind, _, _, _, s0, s1, s2, s3, c0, c1, c2, c3] = *bytes;
    Entry { status, kind, start: u32::from_le_bytes([s0, s1, s2, s3]), count: u32::from_le_bytes([c0, c1, c2, c3]) }
}

fn read_sector(device: &dyn Device, offset: u64) -> Result<[u8; TABLE_SECTOR_SIZE], TableError> {
    let mut sector = [0; TABLE_SECTOR_SIZE];
    device.read_at(offset, &mut sector).map_err(TableError::Device)?;
    Ok(sector)
}

/// Returns the primary and logical partitions. Extended partitions, which only contain others, are left out.
///
/// # Errors
/// [`TableError`].
pub(crate) fn read(
    device: &dyn Device,
    boot: &BootSector,
    sector_size: u32,
) -> Result<Vec<PartitionEntry>, TableError> {
    let mut partitions = Vec::new();
    let mut extended = Vec::new();
    for (number, entry) in (1..).zip(&boot.entries).filter(|(_, entry)| entry.is_used()) {
        let sectors = Sectors { start: entry.start.into(), count: entry.count.into(), size: sector_size };
        let partition = PartitionEntry::new(number, sectors, PartitionKind::Mbr(entry.kind), device.size())?;
        if entry.is_extended() { extended.push(sectors) } else { partitions.push(partition) }
    }
    let mut list = LogicalPartitions { device, tables: Vec::new(), partitions };
    for sectors in extended {
        list.read(sectors)?;
    }
    Ok(list.partitions)
}

/// The logical partitions, as far as they have been read.
struct LogicalPartitions<'a> {
    device: &'a dyn Device,
    /// Sectors of the tables read.
    tables: Vec<u64>,
    /// All partitions read.
    partitions: Vec<PartitionEntry>,
}

impl LogicalPartitions<'_> {
    /// Reads the list of an extended partition: each table has an entry for a logical partition, which counts from the table, and
    /// one for the extended partition of the next table, which counts from the outermost extended partition.
    fn read(&mut self, extended: Sectors) -> Result<(), TableError> {
        let mut next = Some(0);
        while let Some(relative) = next {
            let position = self.table_position(extended, relative)?;
            let bytes = read_sector(self.device, position * u64::from(extended.size))?;
            let Some(table) = BootSector::parse(&bytes) else {
                // An extended partition without logical ones may never have been written.
                let is_empty = relative == 0 && bytes.iter().all(|byte| *byte == 0);
                return if is_empty { Ok(()) } else { Err(TableError::NoLogicalTable) };
            };
            let used = || table.entries.iter().filter(|entry| entry.is_used());
            for entry in used().filter(|entry| !entry.is_extended()) {
                self.add(extended, relative, entry)?;
            }
            next = used().find(|entry| entry.is_extended()).map(|entry| u64::from(entry.start));
        }
        Ok(())
    }

    /// Returns the sector of the table at this sector of the extended partition, each of which is read once.
    fn table_position(&mut self, extended: Sectors, relative: u64) -> Result<u64, TableError> {
        // The partition in the next table would have the next number.
        if relative >= extended.count {
            return Err(TableError::OutOfRange(self.next_number()));
        }
        let position = extended.start + relative;
        if self.tables.contains(&position) {
            return Err(TableError::Loop);
        }
        if self.tables.len() >= LOGICAL_MAX {
            return Err(TableError::TooMany);
        }
        self.tables.push(position);
        Ok(position)
    }

    fn add(&mut self, extended: Sectors, relative: u64, entry: &Entry) -> Result<(), TableError> {
        let number = self.next_number();
        if number - FIRST_LOGICAL >= LOGICAL_MAX as u32 {
            return Err(TableError::TooMany);
        }
        let start = relative + u64::from(entry.start);
        if start + u64::from(entry.count) > extended.count {
            return Err(TableError::OutOfRange(number));
        }
        let sectors = Sectors { start: extended.start + start, count: entry.count.into(), size: extended.size };
        self.partitions.push(PartitionEntry::new(number, sectors, PartitionKind::Mbr(entry.kind), self.device.size())?);
        Ok(())
    }

    fn next_number(&self) -> u32 {
        self.partitions.last().map_or(FIRST_LOGICAL, |last| FIRST_LOGICAL.max(last.number + 1))
    }
}
