//! Partition tables for tests.

use super::super::{Device, MemoryDevice};

/// Numbers, offsets and sizes of the partitions of [`mbr_with_logical`].
pub(crate) const LOGICAL_LAYOUT: [(u32, u64, u64); 3] =
    [(1, 64 * 512, 100 * 512), (5, 272 * 512, 128 * 512), (6, 784 * 512, 200 * 512)];

/// Returns a device of 1 MiB with a primary partition and two logical ones.
pub(crate) fn mbr_with_logical() -> MemoryDevice {
    let device = MemoryDevice::new(1 << 20);
    write_mbr(&device, 0, &[(0x0c, 64, 100), (0x05, 256, 1024)]);
    write_mbr(&device, 256 * 512, &[(0x83, 16, 128), (0x05, 512, 300)]);
    write_mbr(&device, 768 * 512, &[(0x0b, 16, 200)]);
    device
}

/// Number, offset and size of the partition of [`mbr_of_large_sectors`].
pub(crate) const LARGE_SECTOR_LAYOUT: (u32, u64, u64) = (1, 64 * 4096, 100 * 4096);

/// Returns a device of 8 MiB with one partition, counted in sectors of 4096 bytes.
pub(crate) fn mbr_of_large_sectors() -> MemoryDevice {
    let device = MemoryDevice::new(8 << 20);
    write_mbr(&device, 0, &[(0x0c, 64, 100)]);
    device
}

/// An entry of an MBR: its type, its first sector, and its number of sectors.
pub(crate) type MbrEntry = (u8, u32, u32);

/// Writes a table with these entries.
pub(crate) fn write_mbr(device: &dyn Device, offset: u64, entries: &[MbrEntry]) {
    let mut table = [0; 66];
    for (entry, (kind, start, count)) in table.chunks_exact_mut(16).zip(entries) {
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&count.to_le_bytes());
    }
    table[64..].copy_from_slice(&[0x55, 0xaa]);
    device.write_at(offset + 446, &table).unwrap();
}

/// Type of the partitions of [`gpt`]: a basic data partition.
pub(crate) const GPT_TYPE: [u8; 16] =
    [0xa2, 0xa0, 0xd0, 0xeb, 0xe5, 0xb9, 0x33, 0x44, 0x87, 0xc0, 0x68, 0xb6, 0xb7, 0x26, 0x99, 0xc7];

/// Number of the sectors of the device of [`gpt`].
pub(crate) const GPT_SECTORS: u64 = 2048;

/// First and last sector of the partitions of [`gpt`]; the second entry is not used.
pub(crate) const GPT_LAYOUT: [(u64, u64); 3] = [(40, 99), (0, 0), (128, 2000)];

/// Returns a device of 2048 sectors with two partitions.
pub(crate) fn gpt(sector_size: u32) -> MemoryDevice {
    let device = MemoryDevice::new(GPT_SECTORS * u64::from(sector_size));
    write_mbr(&device, 0, &[(0xee, 1, u32::MAX)]);
    write_gpt(&device, sector_size, &GPT_LAYOUT);
    device
}

/// Writes both copies of a table with these partitions.
pub(crate) fn write_gpt(device: &dyn Device, sector_size: u32, partitions: &[(u64, u64)]) {
    let mut entries = [0; 128 * 128];
    for (entry, (first, last)) in entries.chunks_exact_mut(128).zip(partitions).filter(|(_, (first, _))| *first > 0) {
        entry[..16].copy_from_slice(&GPT_TYPE);
        entry[16..32].copy_from_slice(&[7; 16]);
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&last.to_le_bytes());
    }
    let last = device.size() / u64::from(sector_size) - 1;
    let entry_sectors = (entries.len() as u64).div_ceil(sector_size.into());
    for (own, other, entries_sector) in [(1, last, 2), (last, 1, last - entry_sectors)] {
        device.write_at(entries_sector * u64::from(sector_size), &entries).unwrap();
        let usable = [2 + entry_sectors, last - entry_sectors - 1];
        let header = gpt_header([own, other], usable, entries_sector, &entries);
        device.write_at(own * u64::from(sector_size), &header).unwrap();
    }
}

fn gpt_header([own, other]: [u64; 2], [first, last]: [u64; 2], entries_sector: u64, entries: &[u8]) -> Vec<u8> {
    let mut header = b"EFI PART\0\0\x01\0\x5c\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    for number in [own, other, first, last] {
        header.extend(number.to_le_bytes());
    }
    header.extend([9; 16]);
    header.extend(entries_sector.to_le_bytes());
    for number in [128, 128, crc32fast::hash(entries)] {
        header.extend(number.to_le_bytes());
    }
    let checksum = crc32fast::hash(&header);
    header[16..20].copy_from_slice(&checksum.to_le_bytes());
    header
}
