//! Sizes of boot images, of which the catalog says only how much to load.

use super::SECTOR_SIZE;
use super::boot_catalog::{BootImage, BootMedium};
use super::fields::{Fields, Malformed};

/// Bytes at the beginning of an image that [`size`] needs.
pub(crate) const HEAD_LENGTH: usize = 512;

/// Unit of sizes in the catalog, and of disks, in bytes.
const DISK_SECTOR_SIZE: u64 = 512;

/// Returns the size of an image in bytes, given its first bytes: that of the diskette; up to the end of the first partition of a
/// hard disk; and otherwise the largest of what is loaded, what a boot information table says, and the FAT file system in it.
pub(crate) fn size(image: &BootImage, head: &[u8]) -> u64 {
    let fields = Fields(head);
    let loaded = u64::from(image.load_sectors) * DISK_SECTOR_SIZE;
    match image.medium {
        BootMedium::Diskette(kibibytes) => u64::from(kibibytes) * 1024,
        BootMedium::HardDisk => first_partition_end(fields).unwrap_or(loaded),
        BootMedium::NoEmulation | BootMedium::Other(_) => {
            let table = information_table_length(fields, image.sector).unwrap_or(0);
            loaded.max(table).max(fat_size(fields).unwrap_or(0))
        }
    }
}

/// Returns the end of the first partition of a master boot record.
fn first_partition_end(fields: Fields<'_>) -> Result<u64, Malformed> {
    require(fields.bytes(510, 2)? == [0x55, 0xaa])?;
    let (start, count) = (fields.little32(446 + 8)?, fields.little32(446 + 12)?);
    Ok((u64::from(start) + u64::from(count)) * DISK_SECTOR_SIZE)
}

/// Returns the length of the image that a boot information table gives, as mkisofs writes it into boot loaders: at offset 8 the
/// sector of the primary volume descriptor, that of the image, and the length.
fn information_table_length(fields: Fields<'_>, sector: u32) -> Result<u64, Malformed> {
    require(fields.little32(8)? == 16 && fields.little32(12)? == sector)?;
    Ok(u64::from(fields.little32(16)?))
}

/// Returns the size of a FAT file system, by its boot sector.
fn fat_size(fields: Fields<'_>) -> Result<u64, Malformed> {
    let sector_size = u32::from(fields.little16(11)?);
    let (cluster_sectors, fat_count) = (fields.byte(13)?, fields.byte(16)?);
    require(fields.bytes(510, 2)? == [0x55, 0xaa] && matches!(fields.byte(0)?, 0xeb | 0xe9))?;
    require(sector_size.is_power_of_two() && (512..=2 * SECTOR_SIZE).contains(&sector_size))?;
    require(cluster_sectors.is_power_of_two() && (1..=2).contains(&fat_count) && fields.little16(14)? > 0)?;
    let sectors = match fields.little16(19)? {
        0 => fields.little32(32)?,
        sectors => u32::from(sectors),
    };
    Ok(u64::from(sectors) * u64::from(sector_size))
}

fn require(condition: bool) -> Result<(), Malformed> {
    if condition { Ok(()) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::super::boot_catalog::BootPlatform;
    use super::*;

    fn image(medium: BootMedium) -> BootImage {
        BootImage { platform: BootPlatform::Bios, is_bootable: true, medium, sector: 40, load_sectors: 4 }
    }

    #[test]
    fn emulated_media_have_their_sizes() {
        assert_eq!(size(&image(BootMedium::Diskette(1440)), &[]), 1_474_560);
        let mut head = vec![0; 512];
        assert_eq!(size(&image(BootMedium::HardDisk), &head), 2048);
        head[510..].copy_from_slice(&[0x55, 0xaa]);
        (head[454], head[458]) = (63, 100);
        assert_eq!(size(&image(BootMedium::HardDisk), &head), 163 * 512);
    }

    #[test]
    fn programs_say_how_long_they_are() {
        let mut head = vec![0; 512];
        assert_eq!(size(&image(BootMedium::NoEmulation), &head), 2048);
        (head[8], head[12], head[17]) = (16, 40, 0x50);
        assert_eq!(size(&image(BootMedium::NoEmulation), &head), 0x5000);
        head[12] = 41;
        assert_eq!(size(&image(BootMedium::NoEmulation), &head), 2048);
        assert_eq!(size(&image(BootMedium::NoEmulation), &head[..10]), 2048);
    }

    #[test]
    fn file_systems_say_how_large_they_are() {
        let mut head = vec![0; 512];
        head[510..].copy_from_slice(&[0x55, 0xaa]);
        (head[0], head[12], head[13], head[14], head[16]) = (0xeb, 2, 4, 1, 2);
        head[32..36].copy_from_slice(&100_000u32.to_le_bytes());
        assert_eq!(size(&image(BootMedium::NoEmulation), &head), 51_200_000);
        head[19..21].copy_from_slice(&5760u16.to_le_bytes());
        assert_eq!(size(&image(BootMedium::NoEmulation), &head), 2_949_120);
    }
}
