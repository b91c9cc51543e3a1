//! Entries of a file allocation table of each width, and what their values mean.

use super::width::FatWidth;

/// What an entry says of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The cluster is free.
    Free,
    /// The cluster is followed by this one in its chain. Nothing says that this cluster exists.
    Next(u32),
    /// The cluster must not be used.
    Bad,
    /// The cluster is the last one of its chain.
    End,
}

impl Link {
    /// Returns the meaning of a value.
    pub const fn decode(width: FatWidth, value: u32) -> Self {
        let value = value & width.mask();
        if value == 0 {
            Self::Free
        } else if value == width.bad() {
            Self::Bad
        } else if value >= width.end_min() {
            Self::End
        } else {
            Self::Next(value)
        }
    }

    /// Returns the value to store.
    pub const fn encode(self, width: FatWidth) -> u32 {
        match self {
            Self::Free => 0,
            Self::Next(cluster) => cluster & width.mask(),
            Self::Bad => width.bad(),
            Self::End => width.end(),
        }
    }
}

/// Returns the offset of an entry in its table in bytes.
pub const fn entry_offset(width: FatWidth, cluster: u32) -> u64 {
    match width {
        FatWidth::Fat12 => cluster as u64 + cluster as u64 / 2,
        FatWidth::Fat16 => cluster as u64 * 2,
        FatWidth::Fat32 => cluster as u64 * 4,
    }
}

/// Returns the number of bytes that hold an entry, some of whose bits may belong to a neighbour.
pub const fn entry_length(width: FatWidth) -> usize {
    match width {
        FatWidth::Fat12 | FatWidth::Fat16 => 2,
        FatWidth::Fat32 => 4,
    }
}

/// Returns the size of a table with this number of entries in bytes, including the half of one that ends it.
pub const fn table_bytes(width: FatWidth, entries: u32) -> u64 {
    match width {
        FatWidth::Fat12 => (entries as u64 * 3).div_ceil(2),
        FatWidth::Fat16 => entries as u64 * 2,
        FatWidth::Fat32 => entries as u64 * 4,
    }
}

/// Returns the value of a cluster's entry from the bytes at its [`entry_offset`], of which the first [`entry_length`]
/// count; `None` if there are fewer. An entry of 12 bits may cross the end of a sector.
pub fn read_entry(width: FatWidth, cluster: u32, bytes: &[u8]) -> Option<u32> {
    Some(match width {
        FatWidth::Fat12 => {
            let pair = u16::from_le_bytes(*bytes.first_chunk()?);
            u32::from(if cluster.is_multiple_of(2) { pair & 0xFFF } else { pair >> 4 })
        }
        FatWidth::Fat16 => u16::from_le_bytes(*bytes.first_chunk()?).into(),
        FatWidth::Fat32 => u32::from_le_bytes(*bytes.first_chunk()?) & FatWidth::Fat32.mask(),
    })
}

/// Writes the value of a cluster's entry to the bytes at its [`entry_offset`]. Bits of a neighbour and reserved bits stay
/// as they are. Returns `None`, without a change, if there are fewer than [`entry_length`] bytes.
pub fn write_entry(width: FatWidth, cluster: u32, bytes: &mut [u8], value: u32) -> Option<()> {
    match width {
        FatWidth::Fat12 => {
            let field = bytes.first_chunk_mut()?;
            let (pair, value) = (u16::from_le_bytes(*field), (value & 0xFFF) as u16);
            let pair = if cluster.is_multiple_of(2) { pair & 0xF000 | value } else { pair & 0x000F | value << 4 };
            *field = pair.to_le_bytes();
        }
        FatWidth::Fat16 => *bytes.first_chunk_mut()? = (value as u16).to_le_bytes(),
        FatWidth::Fat32 => {
            let field = bytes.first_chunk_mut()?;
            let mask = FatWidth::Fat32.mask();
            *field = (u32::from_le_bytes(*field) & !mask | value & mask).to_le_bytes();
        }
    }
    Some(())
}

/// State of a volume in the entry of cluster 1, beside the one in the boot sector. FAT12 has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeFlags {
    /// It was not unmounted.
    pub is_dirty: bool,
    /// The disk had errors.
    pub had_errors: bool,
}

impl VolumeFlags {
    /// Returns the bits that are set in a volume that is neither.
    const fn bits(width: FatWidth) -> Option<(u32, u32)> {
        match width {
            FatWidth::Fat12 => None,
            FatWidth::Fat16 => Some((0x8000, 0x4000)),
            FatWidth::Fat32 => Some((0x0800_0000, 0x0400_0000)),
        }
    }

    /// Decodes the entry of cluster 1; `None` on FAT12.
    pub fn decode(width: FatWidth, value: u32) -> Option<Self> {
        let (clean, no_errors) = Self::bits(width)?;
        Some(Self { is_dirty: value & clean == 0, had_errors: value & no_errors == 0 })
    }

    /// Returns the entry of cluster 1 with this state; its other bits stay as they are.
    pub fn encode(self, width: FatWidth, value: u32) -> u32 {
        let Some((clean, no_errors)) = Self::bits(width) else { return value };
        let with = |value: u32, bit: u32, set: bool| if set { value | bit } else { value & !bit };
        with(with(value, clean, !self.is_dirty), no_errors, !self.had_errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: [FatWidth; 3] = [FatWidth::Fat12, FatWidth::Fat16, FatWidth::Fat32];

    fn read(width: FatWidth, table: &[u8], cluster: u32) -> u32 {
        read_entry(width, cluster, &table[entry_offset(width, cluster) as usize..]).unwrap()
    }

    #[test]
    fn entries_do_not_disturb_each_other() {
        for width in WIDTHS {
            let mut table = vec![0xA5; table_bytes(width, 400) as usize];
            let mut values: Vec<u32> = (0..400).map(|cluster| read(width, &table, cluster)).collect();
            for round in 0..2000_u32 {
                let (cluster, value) = (round * 37 % 400, round.wrapping_mul(2_654_435_761) & width.mask());
                write_entry(width, cluster, &mut table[entry_offset(width, cluster) as usize..], value).unwrap();
                values[cluster as usize] = value;
                assert_eq!((0..400).map(|cluster| read(width, &table, cluster)).collect::<Vec<_>>(), values);
            }
        }
    }

    #[test]
    fn entries_of_12_bits_cross_sectors() {
        let mut table = [0; 1024];
        assert_eq!(entry_offset(FatWidth::Fat12, 341), 511);
        write_entry(FatWidth::Fat12, 341, &mut table[511..], 0xABC).unwrap();
        assert_eq!(table[511..513], [0xC0, 0xAB]);
    }

    #[test]
    fn reserved_bits_are_neither_read_nor_written() {
        let mut bytes = [0xFF, 0xFF, 0xFF, 0xF0];
        assert_eq!(read_entry(FatWidth::Fat32, 9, &bytes), Some(0x00FF_FFFF));
        write_entry(FatWidth::Fat32, 9, &mut bytes, u32::MAX).unwrap();
        assert_eq!(bytes, [0xFF; 4]);
        write_entry(FatWidth::Fat32, 9, &mut bytes, 0).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0xF0]);
    }

    #[test]
    fn too_few_bytes_are_no_entry() {
        for width in WIDTHS {
            let mut bytes = vec![0; entry_length(width) - 1];
            assert_eq!(read_entry(width, 2, &bytes), None);
            assert_eq!(write_entry(width, 2, &mut bytes, 1), None);
        }
    }

    #[test]
    fn links_survive_encoding() {
        for width in WIDTHS {
            for link in [Link::Free, Link::Next(2), Link::Next(width.clusters_max() + 1), Link::Bad, Link::End] {
                assert_eq!(Link::decode(width, link.encode(width)), link);
            }
            assert_eq!(Link::decode(width, width.end_min()), Link::End);
        }
        assert_eq!(Link::decode(FatWidth::Fat32, 0xF000_0000), Link::Free);
    }

    #[test]
    fn volume_flags_change_only_their_bits() {
        let dirty = VolumeFlags { is_dirty: true, had_errors: false };
        assert_eq!(dirty.encode(FatWidth::Fat16, 0xFFFF), 0x7FFF);
        assert_eq!(dirty.encode(FatWidth::Fat32, 0x0FFF_FFF8), 0x07FF_FFF8);
        assert_eq!(dirty.encode(FatWidth::Fat12, 0xFFF), 0xFFF);
        assert_eq!(VolumeFlags::decode(FatWidth::Fat12, 0), None);
        for width in [FatWidth::Fat16, FatWidth::Fat32] {
            assert!(VolumeFlags::decode(width, dirty.encode(width, 0)).unwrap().is_dirty);
            let clean = VolumeFlags { is_dirty: false, had_errors: true };
            assert_eq!(VolumeFlags::decode(width, clean.encode(width, 0)), Some(clean));
        }
    }
}
