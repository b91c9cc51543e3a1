//! Widths of table entries, and the limits that follow from them.

use std::fmt;

/// Width of the entries of the file allocation table. It also determines where the root directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FatWidth {
    /// 12 bits: floppies, and whatever has fewer than 4,085 clusters.
    Fat12,
    /// 16 bits: fewer than 65,525 clusters.
    Fat16,
    /// 28 of 32 bits, with the root directory in clusters like any other.
    Fat32,
}

impl FatWidth {
    /// Returns the width of a file system with the old fields and this number of clusters. One with the fields of FAT32
    /// is FAT32 whatever the number.
    pub const fn of_old_layout(clusters: u32) -> Self {
        if clusters <= Self::Fat12.clusters_max() { Self::Fat12 } else { Self::Fat16 }
    }

    /// Returns the width that the specification prescribes for a number of clusters.
    pub const fn prescribed(clusters: u32) -> Self {
        if clusters <= Self::Fat12.clusters_max() {
            Self::Fat12
        } else if clusters <= Self::Fat16.clusters_max() {
            Self::Fat16
        } else {
            Self::Fat32
        }
    }

    /// Returns the size of an entry in bits, as it is stored: 12, 16 or 32.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Fat12 => 12,
            Self::Fat16 => 16,
            Self::Fat32 => 32,
        }
    }

    /// Returns the bits of an entry that hold its value.
    pub const fn mask(self) -> u32 {
        match self {
            Self::Fat12 => 0xFFF,
            Self::Fat16 => 0xFFFF,
            Self::Fat32 => 0x0FFF_FFFF,
        }
    }

    /// Returns the largest number of clusters.
    pub const fn clusters_max(self) -> u32 {
        match self {
            Self::Fat12 => 4084,
            Self::Fat16 => 65_524,
            // Numbers of clusters stay below the value of a bad one.
            Self::Fat32 => 0x0FFF_FFF5,
        }
    }

    /// Returns the value of a cluster that must not be used.
    pub const fn bad(self) -> u32 {
        self.mask() - 8
    }

    /// Returns the smallest value of the last cluster of a chain.
    pub const fn end_min(self) -> u32 {
        self.mask() - 7
    }

    /// Returns the value that is written for the last cluster of a chain.
    pub const fn end(self) -> u32 {
        self.mask()
    }

    /// Returns the name in the boot sector, which nothing relies on.
    pub const fn type_name(self) -> &'static [u8; 8] {
        match self {
            Self::Fat12 => b"FAT12   ",
            Self::Fat16 => b"FAT16   ",
            Self::Fat32 => b"FAT32   ",
        }
    }
}

impl fmt::Display for FatWidth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FAT{}", self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_change_at_the_limits_of_the_specification() {
        let prescribed = [4084, 4085, 65_524, 65_525].map(FatWidth::prescribed);
        assert_eq!(prescribed, [FatWidth::Fat12, FatWidth::Fat16, FatWidth::Fat16, FatWidth::Fat32]);
        assert_eq!(FatWidth::of_old_layout(4084), FatWidth::Fat12);
        assert_eq!(FatWidth::of_old_layout(70_000), FatWidth::Fat16);
    }

    #[test]
    fn special_values_are_those_of_the_specification() {
        let values = |width: FatWidth| (width.bad(), width.end_min(), width.end());
        assert_eq!(values(FatWidth::Fat12), (0xFF7, 0xFF8, 0xFFF));
        assert_eq!(values(FatWidth::Fat16), (0xFFF7, 0xFFF8, 0xFFFF));
        assert_eq!(values(FatWidth::Fat32), (0x0FFF_FFF7, 0x0FFF_FFF8, 0x0FFF_FFFF));
        for width in [FatWidth::Fat12, FatWidth::Fat16, FatWidth::Fat32] {
            assert!(width.clusters_max() + 1 < width.bad());
        }
    }
}
