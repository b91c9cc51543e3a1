//! Tests of partition tables: valid, damaged in each way, and mutated at random.

use vnode::Errno;

use super::super::{Device, Fault, FaultyDevice, MemoryDevice};
use super::guid::Guid;
use super::samples::*;
use super::*;

fn read(device: &dyn Device) -> Result<Option<PartitionTable>, TableError> {
    PartitionTable::read(device)
}

/// Returns the numbers, offsets and sizes of the partitions.
fn layout(device: &dyn Device) -> Vec<(u32, u64, u64)> {
    let table = read(device).unwrap().unwrap();
    table.entries.iter().map(|entry| (entry.number, entry.start, entry.size)).collect()
}

fn error(device: &dyn Device) -> TableError {
    read(device).unwrap_err()
}

#[test]
fn primary_and_logical_partitions_are_read() {
    let device = mbr_with_logical();
    assert_eq!(layout(&device), LOGICAL_LAYOUT);
    let table = read(&device).unwrap().unwrap();
    let kinds: Vec<String> = table.entries.iter().map(|entry| entry.kind.to_string()).collect();
    assert_eq!(kinds, ["0c", "83", "0b"]);
}

#[test]
fn sectors_are_those_of_the_device() {
    let image = mbr_of_large_sectors();
    let (number, start, size) = LARGE_SECTOR_LAYOUT;
    assert_eq!(layout(&image), [(number, start / 8, size / 8)]);
    let device = image.with_sector_size(4096);
    assert_eq!(layout(&device), [LARGE_SECTOR_LAYOUT]);
    assert_eq!(read(&device).unwrap().unwrap().with_other_sector_size(&device), None);
}

#[test]
fn sectors_without_a_table_have_none() {
    assert_eq!(read(&MemoryDevice::new(4096)), Ok(None));
    assert_eq!(read(&MemoryDevice::new(0)), Ok(None));
    // A boot sector of a file system, with code where entries would be.
    let device = mbr_with_logical();
    device.write_at(446 + 16, &[0xfa]).unwrap();
    assert_eq!(read(&device), Ok(None));
    let empty = MemoryDevice::new(4096);
    write_mbr(&empty, 0, &[]);
    assert_eq!(layout(&empty), []);
}

#[test]
fn entries_out_of_range_are_errors() {
    let cases: [&[MbrEntry]; 5] = [
        &[(0x0c, 1948, 101)],
        &[(0x0c, u32::MAX, u32::MAX)],
        &[(0x0c, 2048, 1)],
        &[(0x0c, 1, u32::MAX)],
        &[(0x05, 2000, 100)],
    ];
    for entries in cases {
        let device = MemoryDevice::new(1 << 20);
        write_mbr(&device, 0, entries);
        assert_eq!(error(&device), TableError::OutOfRange(1), "{entries:?}");
    }
    let device = MemoryDevice::new(1 << 20);
    write_mbr(&device, 0, &[(0x0c, 1948, 100)]);
    assert_eq!(layout(&device), [(1, 1948 * 512, 51_200)]);
}

#[test]
fn logical_partitions_stay_within_the_extended_one() {
    let cases: [(&[MbrEntry], TableError); 5] = [
        (&[(0x83, 16, 1009)], TableError::OutOfRange(5)),
        (&[(0x83, u32::MAX, 1)], TableError::OutOfRange(5)),
        (&[(0x83, 16, 128), (0x05, 1024, 1)], TableError::OutOfRange(6)),
        (&[(0x83, 16, 128), (0x05, 0, 1)], TableError::Loop),
        // There is no table.
        (&[(0x83, 16, 128), (0x05, 600, 1)], TableError::NoLogicalTable),
    ];
    for (entries, expected) in cases {
        let device = mbr_with_logical();
        write_mbr(&device, 256 * 512, entries);
        assert_eq!(error(&device), expected, "{entries:?}");
    }
    let device = mbr_with_logical();
    write_mbr(&device, 768 * 512, &[(0x83, 16, 1), (0x05, 512, 300)]);
    assert_eq!(error(&device), TableError::Loop);
    device.write_at(256 * 512, &[0; 512]).unwrap();
    assert_eq!(layout(&device), LOGICAL_LAYOUT[..1]);
}

#[test]
fn logical_partitions_are_limited() {
    let device = MemoryDevice::new(1 << 20);
    write_mbr(&device, 0, &[(0x05, 1, 2000)]);
    for table in 0..200 {
        write_mbr(&device, (1 + 2 * u64::from(table)) * 512, &[(0x83, 1, 1), (0x05, 2 * (table + 1), 2)]);
    }
    assert_eq!(error(&device), TableError::TooMany);
    write_mbr(&device, (1 + 2 * 127) * 512, &[(0x83, 1, 1)]);
    let layout = layout(&device);
    assert_eq!((layout.len(), layout[127]), (128, (132, 256 * 512, 512)));
}

#[test]
fn a_gpt_is_read_with_sectors_of_both_sizes() {
    for sector_size in [512, 4096] {
        let device = gpt(sector_size);
        let size = u64::from(sector_size);
        let expected = [(1, 40 * size, 60 * size), (3, 128 * size, 1873 * size)];
        assert_eq!(layout(&device), expected);
        let table = read(&device).unwrap().unwrap();
        assert_eq!((table.sector_size, table.entries[0].kind), (sector_size, PartitionKind::Gpt(Guid(GPT_TYPE))));
        assert_eq!(table.with_other_sector_size(&device), None);
    }
    assert_eq!(layout(&gpt(4096).with_sector_size(4096)), layout(&gpt(4096)));
    assert_eq!(error(&gpt(512).with_sector_size(4096)), TableError::Damaged);
}

#[test]
fn the_second_copy_is_read_if_the_first_is_damaged() {
    // A byte of the header, of its checksum, and of the entries.
    for offset in [512 + 70, 512 + 17, 1024 + 33] {
        let device = gpt(512);
        let expected = layout(&device);
        device.write_at(offset, &[0xff]).unwrap();
        assert_eq!(layout(&device), expected, "{offset}");
    }
    let device = gpt(512);
    let expected = layout(&device);
    let faulty = FaultyDevice::new(std::sync::Arc::new(device));
    faulty.add(Fault::bad_sectors(512..1024));
    assert_eq!(layout(&faulty), expected);
    faulty.add(Fault::bad_sectors(0..1));
    assert_eq!(error(&faulty), TableError::Device(Errno::EIO));
}

#[test]
fn the_second_copy_is_found_on_a_device_that_has_become_larger() {
    let device = gpt(512);
    let expected = layout(&device);
    let larger = MemoryDevice::new(2 << 20);
    larger.write_at(0, &device.contents()).unwrap();
    larger.write_at(1024, &[0xff]).unwrap();
    assert_eq!(layout(&larger), expected);
}

#[test]
fn a_gpt_without_a_valid_copy_is_an_error() {
    let device = gpt(512);
    device.write_at(512, &[0]).unwrap();
    device.write_at((GPT_SECTORS - 1) * 512, &[0]).unwrap();
    assert_eq!(error(&device), TableError::Damaged);
    let unprotected = gpt(512);
    write_mbr(&unprotected, 0, &[(0x0c, 64, 100)]);
    assert_eq!(layout(&unprotected), [(1, 64 * 512, 51_200)], "a GPT that is left over");
    let hybrid = gpt(512);
    write_mbr(&hybrid, 0, &[(0x0c, 64, 100), (0xee, 1, 10)]);
    assert_eq!(layout(&hybrid), layout(&gpt(512)));
}

#[test]
fn gpt_entries_out_of_range_are_errors() {
    for partition in [(33, 99), (40, 39), (40, 2015), (2100, 2101), (u64::MAX, u64::MAX), (1, u64::MAX)] {
        let device = gpt(512);
        write_gpt(&device, 512, &[partition]);
        assert_eq!(error(&device), TableError::OutOfRange(1), "{partition:?}");
    }
    let device = gpt(512);
    write_gpt(&device, 512, &[(34, 2014)]);
    assert_eq!(layout(&device), [(1, 34 * 512, 1981 * 512)]);
}

#[test]
fn a_gpt_with_too_many_entries_is_not_read() {
    for (count, size) in [(u32::MAX, 128_u32), (u32::MAX, u32::MAX), (8193, 128), (1, 64), (1, 8192), (4, 192)] {
        let device = gpt(512);
        for sector in [1, GPT_SECTORS - 1] {
            let mut header = [0; 92];
            device.read_at(sector * 512, &mut header).unwrap();
            header[16..20].fill(0);
            header[80..84].copy_from_slice(&count.to_le_bytes());
            header[84..88].copy_from_slice(&size.to_le_bytes());
            let checksum = crc32fast::hash(&header);
            header[16..20].copy_from_slice(&checksum.to_le_bytes());
            device.write_at(sector * 512, &header).unwrap();
        }
        assert_eq!(error(&device), TableError::Damaged, "{count} entries of {size} bytes");
    }
}

#[test]
fn errors_have_a_remedy() {
    let error = TableError::OutOfRange(5).to_string();
    let expected =
        "its partition table is invalid: partition 5 does not end within the device; correct it with fdisk(8)";
    assert_eq!(error, expected);
}

/// Changes bytes of the sectors of a device that have tables, sometimes with a valid checksum.
fn mutate(device: &MemoryDevice, sectors: &[u64], random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..6) {
        let sector = sectors[random.usize(0..sectors.len())] * 512;
        let edges = [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff];
        let byte = if random.bool() { random.u8(..) } else { edges[random.usize(0..edges.len())] };
        device.write_at(sector + random.u64(0..512), &[byte]).unwrap();
    }
    if random.bool() {
        let mut header = [0; 92];
        device.read_at(512, &mut header).unwrap();
        header[16..20].fill(0);
        let checksum = crc32fast::hash(&header);
        device.write_at(512 + 16, &checksum.to_le_bytes()).unwrap();
    }
}

#[test]
fn random_tables_are_read_or_refused() {
    let seed =
        std::env::var("PLYFS_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("PLYFS_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let samples = [
        (mbr_with_logical(), vec![0, 256, 768]),
        (gpt(512), vec![0, 1, 2, GPT_SECTORS - 1, GPT_SECTORS - 33]),
        (gpt(4096), vec![0, 8, 16]),
    ];
    for _ in 0..10_000 {
        let (sample, sectors) = &samples[random.usize(0..samples.len())];
        let device = sample.clone();
        mutate(&device, sectors, &mut random);
        let Ok(Some(table)) = read(&device) else { continue };
        let all = table.with_other_sector_size(&device).into_iter().chain([table]);
        for entry in all.flat_map(|table| table.entries) {
            assert!(entry.start + entry.size <= device.size() && entry.size > 0 && entry.number > 0, "{entry:?}");
        }
    }
}
