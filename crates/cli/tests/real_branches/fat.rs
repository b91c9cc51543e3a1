//! An empty FAT32, as written by hand: Debian has no program for that in what is always installed.

use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use crate::file_system::empty_image;
use crate::support::Scratch;

const SECTOR_BYTES: u32 = 512;
/// One sector a cluster: more than 65,525 clusters make it FAT32.
const SECTORS: u32 = 70_000;
const RESERVED_SECTORS: u32 = 32;
const TABLES: u32 = 2;
const TABLE_SECTORS: u32 = (SECTORS * 4).div_ceil(SECTOR_BYTES);

/// The image of one.
pub(crate) fn image(scratch: &Scratch) -> PathBuf {
    let (path, mut file) = empty_image(scratch, "fat image", u64::from(SECTORS * SECTOR_BYTES));
    let mut put = |sector: u32, bytes: &[u8]| {
        file.seek(SeekFrom::Start(u64::from(sector * SECTOR_BYTES))).expect("the image is written");
        file.write_all(bytes).expect("the image is written");
    };
    put(0, &boot_sector());
    put(1, &information_sector());
    // The medium, the end of a chain, and the root's one cluster.
    let entries = [0x0fff_fff8_u32, 0x0fff_ffff, 0x0fff_ffff].map(u32::to_le_bytes).concat();
    (0..TABLES).for_each(|table| put(RESERVED_SECTORS + table * TABLE_SECTORS, &entries));
    path
}

fn boot_sector() -> [u8; SECTOR_BYTES as usize] {
    let mut sector = [0; SECTOR_BYTES as usize];
    let mut put = |offset: usize, bytes: &[u8]| sector[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(0, &[0xeb, 0x58, 0x90]);
    put(3, b"PLYFS   ");
    put(11, &(SECTOR_BYTES as u16).to_le_bytes());
    put(13, &[1]);
    put(14, &(RESERVED_SECTORS as u16).to_le_bytes());
    put(16, &[TABLES as u8]);
    put(21, &[0xf8]);
    put(24, &[63, 0, 255, 0]);
    put(32, &SECTORS.to_le_bytes());
    put(36, &TABLE_SECTORS.to_le_bytes());
    put(44, &2_u32.to_le_bytes());
    put(48, &1_u16.to_le_bytes());
    put(64, &[0x80, 0, 0x29]);
    put(67, &0x1234_5678_u32.to_le_bytes());
    put(71, b"NO NAME    FAT32   ");
    put(510, &[0x55, 0xaa]);
    sector
}

fn information_sector() -> [u8; SECTOR_BYTES as usize] {
    let mut sector = [0; SECTOR_BYTES as usize];
    let mut put = |offset: usize, number: u32| sector[offset..offset + 4].copy_from_slice(&number.to_le_bytes());
    put(0, 0x4161_5252);
    put(484, 0x6141_7272);
    // How much is free, and where, is not known.
    put(488, u32::MAX);
    put(492, u32::MAX);
    put(508, 0xaa55_0000);
    sector
}
