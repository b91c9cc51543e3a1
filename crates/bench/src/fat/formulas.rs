//! The paper's formulas for what file systems spend on metadata: the curves of its Figures 2 to 4.
//!
//! All costs are in bytes for each file, without the file's own data. The disk has 60 MB, fragments and clusters of 512 bytes,
//! blocks of 4 KiB, FAT entries of 2 bytes, and names of 12 bytes.

const ALLOCATION: f64 = 512.0;
const FFS_BLOCK: f64 = 4096.0;
const FAT_ENTRY: f64 = 2.0;
const NAME: f64 = 12.0;
const INODE: f64 = 128.0;
/// Bytes of a file that an inode refers to itself.
const FFS_DIRECT: f64 = 65_536.0;
/// Bytes of a file that an indirect block refers to.
const FFS_INDIRECT: f64 = FFS_BLOCK / 4.0 * FFS_BLOCK;
/// Cylinder groups and copies of the superblock.
const FFS_FIXED: f64 = 1.4e6;

/// Returns the cost of a directory entry of FAT, with that many files in the directory.
pub(crate) fn fat_directory_entry(files_per_directory: f64) -> f64 {
    round_up(files_per_directory * 32.0, ALLOCATION) / files_per_directory
}

/// Returns the cost of a directory entry of FFS.
pub(crate) fn ffs_directory_entry(files_per_directory: f64) -> f64 {
    round_up(files_per_directory * f64::max(12.0, 8.0 + NAME), ALLOCATION) / files_per_directory
}

/// Returns the metadata of a file in FAT.
pub(crate) fn fat_metadata(size: f64, files_per_directory: f64) -> f64 {
    fat_directory_entry(files_per_directory) + FAT_ENTRY * (size / ALLOCATION).ceil()
}

/// Returns the metadata of a file in FFS, with that many files on the disk.
pub(crate) fn ffs_metadata(size: f64, files_per_directory: f64, files: f64) -> f64 {
    let bitmap = (size / (8.0 * ALLOCATION)).ceil();
    ffs_directory_entry(files_per_directory) + INODE + bitmap + FFS_FIXED / files + FFS_BLOCK * indirect_blocks(size)
}

/// Returns the number of indirect blocks: one for each part beyond the first, and one more that refers to all but the first of
/// those.
fn indirect_blocks(size: f64) -> f64 {
    let parts = ((size - FFS_DIRECT) / FFS_INDIRECT).ceil().max(0.0);
    if parts > 1.0 { parts + 1.0 } else { parts }
}

fn round_up(bytes: f64, unit: f64) -> f64 {
    (bytes / unit).ceil() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_paid_by_the_block() {
        assert_eq!(fat_directory_entry(1.0), 512.0);
        assert_eq!(fat_directory_entry(16.0), 32.0);
        assert_eq!(ffs_directory_entry(20.0), 512.0 / 20.0);
    }

    #[test]
    fn ffs_pays_for_a_block_list_beyond_64_kib() {
        let step = ffs_metadata(65_537.0, 20.0, 6_000.0) - ffs_metadata(65_536.0, 20.0, 6_000.0);
        assert!((4096.0..4100.0).contains(&step), "{step}");
        assert!(fat_metadata(65_536.0, 20.0) < ffs_metadata(65_536.0, 20.0, 6_000.0));
    }
}
