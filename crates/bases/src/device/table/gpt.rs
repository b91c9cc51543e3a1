//! GPT partition tables: a header and an array of entries, with a second copy of both at the end of the device.

use super::super::Device;
use super::entry::{PartitionEntry, PartitionKind, Sectors};
use super::error::TableError;
use super::guid::Guid;

const SIGNATURE: [u8; 8] = *b"EFI PART";
/// Size in bytes of the header as specified; it may be larger, up to a sector.
const HEADER_SIZE: usize = 92;
const REVISION_OFFSET: usize = 8;
const HEADER_SIZE_OFFSET: usize = 12;
const HEADER_CHECKSUM_OFFSET: usize = 16;
const OWN_SECTOR_OFFSET: usize = 24;
const OTHER_SECTOR_OFFSET: usize = 32;
const FIRST_USABLE_OFFSET: usize = 40;
const LAST_USABLE_OFFSET: usize = 48;
const ENTRIES_SECTOR_OFFSET: usize = 72;
const ENTRY_COUNT_OFFSET: usize = 80;
const ENTRY_SIZE_OFFSET: usize = 84;
const ENTRIES_CHECKSUM_OFFSET: usize = 88;

const _: () = assert!(ENTRIES_CHECKSUM_OFFSET + 4 == HEADER_SIZE);

/// Major revision of the format, in the upper half of the field.
const REVISION_MAJOR: u32 = 1;
/// Sector of the first copy of the header.
const FIRST_HEADER: u64 = 1;

/// Smallest size in bytes of an entry.
const ENTRY_SIZE_MIN: u32 = 128;
/// Largest size in bytes of an entry that is read.
const ENTRY_SIZE_MAX: u32 = 4096;
/// Maximum size in bytes of the array of entries; it usually has 16 KiB.
const ENTRIES_SIZE_MAX: u64 = 1 << 20;

/// A header whose own fields are valid.
struct Header {
    /// Sector of the other copy.
    other: u64,
    first_usable: u64,
    last_usable: u64,
    /// First sector of the array of entries.
    entries_sector: u64,
    entry_size: u32,
    /// Size in bytes of the array.
    entries_size: u64,
    entries_checksum: u32,
}

/// Returns the partitions of the first valid copy of the table with sectors of this size; `None` if there is none.
///
/// # Errors
/// [`TableError::OutOfRange`] for an entry of a copy that is valid.
pub(crate) fn read(device: &dyn Device, sector_size: u32) -> Result<Option<Vec<PartitionEntry>>, TableError> {
    let last = (device.size() / u64::from(sector_size)).checked_sub(1);
    // On a device that has become larger, the second copy is where it was.
    let other = read_header(device, sector_size, FIRST_HEADER).map(|header| header.other);
    for sector in [Some(FIRST_HEADER), last, other].into_iter().flatten() {
        let Some(header) = read_header(device, sector_size, sector) else { continue };
        if let Some(entries) = read_entries(device, sector_size, &header) {
            return partitions(device, sector_size, &header, &entries).map(Some);
        }
    }
    Ok(None)
}

/// Reads the header in a sector, if it is valid.
fn read_header(device: &dyn Device, sector_size: u32, sector: u64) -> Option<Header> {
    let mut bytes = vec![0; sector_size as usize];
    device.read_at(sector.checked_mul(u64::from(sector_size))?, &mut bytes).ok()?;
    let size = u32_at(&bytes, HEADER_SIZE_OFFSET)? as usize;
    if !bytes.starts_with(&SIGNATURE) || size < HEADER_SIZE || u32_at(&bytes, REVISION_OFFSET)? >> 16 != REVISION_MAJOR
    {
        return None;
    }
    let header = bytes.get_mut(..size)?;
    let checksum = u32_at(header, HEADER_CHECKSUM_OFFSET)?;
    // The checksum is that of a header without it.
    header.get_mut(HEADER_CHECKSUM_OFFSET..HEADER_CHECKSUM_OFFSET + 4)?.fill(0);
    if crc32fast::hash(header) != checksum || u64_at(header, OWN_SECTOR_OFFSET)? != sector {
        return None;
    }
    let entry_size = u32_at(header, ENTRY_SIZE_OFFSET)?;
    let entries_size = u64::from(u32_at(header, ENTRY_COUNT_OFFSET)?).checked_mul(u64::from(entry_size))?;
    let has_valid_entries = (ENTRY_SIZE_MIN..=ENTRY_SIZE_MAX).contains(&entry_size)
        && entry_size.is_power_of_two()
        && entries_size <= ENTRIES_SIZE_MAX;
    has_valid_entries.then_some(Header {
        other: u64_at(header, OTHER_SECTOR_OFFSET)?,
        first_usable: u64_at(header, FIRST_USABLE_OFFSET)?,
        last_usable: u64_at(header, LAST_USABLE_OFFSET)?,
        entries_sector: u64_at(header, ENTRIES_SECTOR_OFFSET)?,
        entry_size,
        entries_size,
        entries_checksum: u32_at(header, ENTRIES_CHECKSUM_OFFSET)?,
    })
}

/// Reads the array of entries, if its checksum is right.
fn read_entries(device: &dyn Device, sector_size: u32, header: &Header) -> Option<Vec<u8>> {
    let offset = header.entries_sector.checked_mul(u64::from(sector_size))?;
    let mut entries = vec![0; header.entries_size as usize];
    device.read_at(offset, &mut entries).ok()?;
    (crc32fast::hash(&entries) == header.entries_checksum).then_some(entries)
}

/// Returns the partitions in an array of entries.
fn partitions(
    device: &dyn Device,
    sector_size: u32,
    header: &Header,
    entries: &[u8],
) -> Result<Vec<PartitionEntry>, TableError> {
    let mut partitions = Vec::new();
    for (number, entry) in (1..).zip(entries.chunks_exact(header.entry_size as usize)) {
        let Some((kind, rest)) = entry.split_first_chunk::<16>() else { continue };
        if *kind == [0; 16] {
            continue;
        }
        // After the type: a GUID of the partition, and its first and last sector.
        let (first, last) = u64_at(rest, 16).zip(u64_at(rest, 24)).ok_or(TableError::OutOfRange(number))?;
        if first < header.first_usable || last > header.last_usable || last < first {
            return Err(TableError::OutOfRange(number));
        }
        let count = (last - first).checked_add(1).ok_or(TableError::OutOfRange(number))?;
        let sectors = Sectors { start: first, count, size: sector_size };
        partitions.push(PartitionEntry::new(number, sectors, PartitionKind::Gpt(Guid(*kind)), device.size())?);
    }
    Ok(partitions)
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().copied().map(u64::from_le_bytes)
}
