//! zisofs: transparently compressed files, by an entry in the system use area (`ZF`, `Z2`) and a header before the data.

use super::fields::{Fields, Malformed};

/// First bytes of a file of version 1.
const MAGIC_1: &[u8] = &[0x37, 0xe4, 0x53, 0x96, 0xc9, 0xdb, 0xd6, 0x07];
/// First bytes of a file of version 2.
const MAGIC_2: &[u8] = &[0xef, 0x22, 0x55, 0xa1, 0xbc, 0x1b, 0x95, 0xa0];

/// Binary logarithms of the sizes of blocks: 32 KiB to 1 MiB.
const BLOCK_LOGARITHMS: std::ops::RangeInclusive<u8> = 15..=20;

/// Version of the format, which is a matter of the widths of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compression {
    pub(crate) version: Version,
    /// Length of the header in bytes; the table of blocks follows it.
    header_length: u16,
    /// Binary logarithm of the size of a block.
    block_logarithm: u8,
    /// Size of the decompressed file in bytes.
    pub(crate) size: u64,
    /// Whether the blocks are streams of zlib. Others are not read.
    pub(crate) is_zlib: bool,
}

impl Compression {
    /// Decodes an entry with this version number and data.
    ///
    /// # Errors
    /// [`Malformed`] if it is short, of another version, or its numbers are out of range.
    pub(crate) fn parse(version: u8, data: &[u8]) -> Result<Self, Malformed> {
        let fields = Fields(data);
        let algorithm = fields.bytes(0, 2)?;
        let (version, size, is_zlib) = match version {
            1 => (Version::One, u64::from(fields.both32(4)?), algorithm == b"pz"),
            2 => (Version::Two, fields.little64(4)?, algorithm == b"PZ"),
            _ => return Err(Malformed),
        };
        let compression = Self {
            version,
            header_length: u16::from(fields.byte(2)?) * 4,
            block_logarithm: fields.byte(3)?,
            size,
            is_zlib,
        };
        let is_valid = BLOCK_LOGARITHMS.contains(&compression.block_logarithm)
            && usize::from(compression.header_length) >= compression.header_bytes()
            && i64::try_from(size).is_ok();
        if is_valid { Ok(compression) } else { Err(Malformed) }
    }

    /// Returns the number of bytes at the beginning of the file that [`Compression::check_header`] needs.
    pub(crate) fn header_bytes(&self) -> usize {
        match self.version {
            Version::One => 16,
            Version::Two => 24,
        }
    }

    /// Checks that the header of the file says what the entry says.
    ///
    /// # Errors
    /// [`Malformed`].
    pub(crate) fn check_header(&self, header: &[u8]) -> Result<(), Malformed> {
        let fields = Fields(header);
        let words = (self.header_length / 4) as u8;
        let agrees = match self.version {
            Version::One => {
                fields.bytes(0, 8)? == MAGIC_1
                    && u64::from(fields.little32(8)?) == self.size
                    && fields.bytes(12, 2)? == [words, self.block_logarithm]
            }
            Version::Two => {
                fields.bytes(0, 8)? == MAGIC_2
                    && fields.bytes(8, 2)? == [0, words]
                    && fields.byte(11)? == self.block_logarithm
                    && fields.little64(12)? == self.size
            }
        };
        if agrees { Ok(()) } else { Err(Malformed) }
    }

    /// Returns the size of a decompressed block in bytes; the last one of a file may be shorter.
    pub(crate) fn block_size(&self) -> u64 {
        1 << self.block_logarithm
    }

    /// Returns the size in bytes of the decompressed block with this number, which is below the size of the file.
    pub(crate) fn size_of_block(&self, number: u64) -> u64 {
        self.size.saturating_sub(number << self.block_logarithm).min(self.block_size())
    }

    /// Returns the length in bytes of the positions in the table that [`Compression::positions`] decodes.
    pub(crate) fn positions_length(&self) -> usize {
        match self.version {
            Version::One => 8,
            Version::Two => 16,
        }
    }

    /// Returns the offset in the file of the two positions in the table that a block has: its beginning and its end.
    pub(crate) fn positions_offset(&self, number: u64) -> u64 {
        u64::from(self.header_length) + number * (self.positions_length() as u64 / 2)
    }

    /// Decodes the two positions of a block. Equal ones are those of a block of zeros.
    ///
    /// # Errors
    /// [`Malformed`] if the block ends before it begins.
    pub(crate) fn positions(&self, bytes: &[u8]) -> Result<(u64, u64), Malformed> {
        let fields = Fields(bytes);
        let (start, end) = match self.version {
            Version::One => (u64::from(fields.little32(0)?), u64::from(fields.little32(4)?)),
            Version::Two => (fields.little64(0)?, fields.little64(8)?),
        };
        if start <= end { Ok((start, end)) } else { Err(Malformed) }
    }

    /// Returns the largest number of bytes that a block may have in compressed form. zlib never needs as much.
    pub(crate) fn stored_bytes_max(&self) -> u64 {
        self.block_size() + self.block_size() / 8 + 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_1() -> Compression {
        Compression::parse(1, &[b'p', b'z', 4, 15, 0x87, 0xd6, 0x12, 0, 0, 0x12, 0xd6, 0x87]).unwrap()
    }

    #[test]
    fn entries_of_both_versions() {
        let one = version_1();
        assert_eq!((one.version, one.size, one.block_size(), one.is_zlib), (Version::One, 1_234_567, 32_768, true));
        let two = Compression::parse(2, &[b'P', b'Z', 6, 17, 0, 0x80, 0xca, 0x39, 0x61, 0x24, 0, 0]).unwrap();
        assert_eq!((two.version, two.size, two.is_zlib), (Version::Two, 0x2461_39ca_8000, true));
        let other = Compression::parse(2, &[b'X', b'Z', 6, 17, 1, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert!(!other.is_zlib);
    }

    #[test]
    fn entries_out_of_range_are_malformed() {
        let data = [b'p', b'z', 4, 15, 1, 0, 0, 0, 0, 0, 0, 1];
        assert!(Compression::parse(1, &data).is_ok());
        assert!(Compression::parse(3, &data).is_err() && Compression::parse(1, &data[..11]).is_err());
        for (offset, value) in [(2, 3), (3, 14), (3, 21), (3, 255)] {
            let mut data = data;
            data[offset] = value;
            assert_eq!(Compression::parse(1, &data), Err(Malformed));
        }
        assert_eq!(Compression::parse(2, &[b'P', b'Z', 6, 17, 0, 0, 0, 0, 0, 0, 0, 0x80]), Err(Malformed));
    }

    #[test]
    fn the_header_agrees_with_the_entry() {
        let one = version_1();
        let mut header = [MAGIC_1, &[0x87, 0xd6, 0x12, 0, 4, 15, 0, 0]].concat();
        assert_eq!(one.check_header(&header), Ok(()));
        header[13] = 16;
        assert_eq!(one.check_header(&header), Err(Malformed));
        assert_eq!(one.check_header(&header[..10]), Err(Malformed));
        let two = Compression::parse(2, &[b'P', b'Z', 6, 17, 5, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut header = [MAGIC_2, &[0, 6, 1, 17, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(two.check_header(&header), Ok(()));
        header[8] = 1;
        assert_eq!(two.check_header(&header), Err(Malformed));
    }

    #[test]
    fn blocks_have_positions_and_sizes() {
        let one = version_1();
        assert_eq!((one.size_of_block(0), one.size_of_block(37), one.size_of_block(38)), (32_768, 22_151, 0));
        assert_eq!(one.positions_offset(2), 24);
        assert_eq!(one.positions(&[1, 0, 0, 0, 2, 0, 0, 0]), Ok((1, 2)));
        assert_eq!(one.positions(&[3, 0, 0, 0, 2, 0, 0, 0]), Err(Malformed));
    }
}
