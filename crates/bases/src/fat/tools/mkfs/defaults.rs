//! What is chosen by the size: as Windows and DOS do it.

use crate::fat::format::FatWidth;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Largest size in bytes for which FAT12 is chosen.
const FAT12_MAX: u64 = 8400 * 512;
/// Smallest size in bytes for which FAT32 is chosen.
const FAT32_MIN: u64 = 512 * MIB;

/// A floppy of a usual size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floppy {
    pub(crate) sectors_per_cluster: u32,
    pub(crate) root_entries: u16,
    pub(crate) media: u8,
    pub(crate) sectors_per_track: u16,
    pub(crate) heads: u16,
}

/// Returns the parameters of a floppy of this size in bytes, if it is that of one.
pub(crate) fn floppy(size: u64) -> Option<Floppy> {
    let (sectors_per_cluster, root_entries, media, sectors_per_track, heads) = match size / KIB {
        160 => (1, 64, 0xFE, 8, 1),
        180 => (1, 64, 0xFC, 9, 1),
        320 => (2, 112, 0xFF, 8, 2),
        360 => (2, 112, 0xFD, 9, 2),
        720 => (2, 112, 0xF9, 9, 2),
        1200 => (1, 224, 0xF9, 15, 2),
        1440 => (1, 224, 0xF0, 18, 2),
        2880 => (2, 240, 0xF0, 36, 2),
        _ => return None,
    };
    let floppy = Floppy { sectors_per_cluster, root_entries, media, sectors_per_track, heads };
    size.is_multiple_of(KIB).then_some(floppy)
}

/// Returns the width for a size in bytes.
pub(crate) fn width(size: u64) -> FatWidth {
    if size <= FAT12_MAX {
        FatWidth::Fat12
    } else if size < FAT32_MIN {
        FatWidth::Fat16
    } else {
        FatWidth::Fat32
    }
}

/// Returns the size of clusters in bytes for a size of the file system in bytes.
pub(crate) fn cluster_size(width: FatWidth, size: u64) -> u32 {
    let sizes: &[(u64, u32)] = match width {
        FatWidth::Fat12 => &[(2 * MIB, 512), (4 * MIB, 1024), (8 * MIB, 2048), (16 * MIB, 4096)],
        FatWidth::Fat16 => &[
            (16 * MIB, 1024),
            (128 * MIB, 2048),
            (256 * MIB, 4096),
            (512 * MIB, 8192),
            (GIB, 16_384),
            (2 * GIB, 32_768),
            (4 * GIB, 65_536),
        ],
        FatWidth::Fat32 => {
            &[(260 * MIB, 512), (8 * GIB, 4096), (16 * GIB, 8192), (32 * GIB, 16_384), (u64::MAX, 32_768)]
        }
    };
    let fitting = sizes.iter().find(|&&(size_max, _)| size <= size_max).or(sizes.last());
    fitting.map_or(512, |&(_, cluster_size)| cluster_size)
}

/// Returns the heads and the sectors of a track by which firmware addresses a disk of this number of sectors.
pub(crate) fn disk_geometry(sectors: u32) -> (u16, u16) {
    const SECTORS_PER_TRACK: u16 = 63;
    const CYLINDERS: u32 = 1024;
    let fits = |&heads: &u16| sectors <= u32::from(heads) * u32::from(SECTORS_PER_TRACK) * CYLINDERS;
    ([16, 32, 64, 128].into_iter().find(fits).unwrap_or(255), SECTORS_PER_TRACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_usual_parameters() {
        assert_eq!(floppy(1_474_560).map(|floppy| (floppy.media, floppy.root_entries)), Some((0xF0, 224)));
        assert_eq!(floppy(1_474_561), None);
        assert_eq!(
            [4 * MIB, 5 * MIB, 511 * MIB, 512 * MIB].map(width),
            [FatWidth::Fat12, FatWidth::Fat16, FatWidth::Fat16, FatWidth::Fat32]
        );
        assert_eq!(cluster_size(FatWidth::Fat32, 4 * GIB), 4096);
        assert_eq!(cluster_size(FatWidth::Fat32, 64 * GIB), 32_768);
        assert_eq!(cluster_size(FatWidth::Fat16, 100 * GIB), 65_536);
        assert_eq!((disk_geometry(1000), disk_geometry(u32::MAX)), ((16, 63), (255, 63)));
    }
}
