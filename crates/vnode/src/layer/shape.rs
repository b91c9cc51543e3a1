//! The shape of encoded data: sizes and forms of blocks, and what holes are below.

use crate::{Errno, Result};

/// A layer's encoding of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataShape {
    /// Size of an upper block in bytes, not 0. A multiple of the page size (4,096) suits memory mappings best.
    pub block_size: usize,
    /// Number of bytes by which a block is longer below, whether whole or short: 0 for an encoding that preserves
    /// sizes.
    pub overhead: usize,
    /// Representation of zeros that were never written.
    pub holes: Holes,
    /// Leaves the part that an encoded block does not need, zeros up to its end, unwritten, as a hole below: for
    /// encodings that make data shorter. The size of an encoded block is then best a multiple of the page size. The
    /// layer guarantees that a block's first bytes contain its length, so that a file that was only extended reads as
    /// zeros from its old end on, and that it never encodes a block, whole or short, to zeros only.
    pub sparse: bool,
}

/// Representation below of zeros that were never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    /// Written out, encoded: always correct, but a file has no holes.
    Filled,
    /// A whole block of zeros below represents a block of zeros above. The layer guarantees that it never encodes a
    /// whole block to zeros only.
    ZeroBlock,
    /// Each byte is encoded to one byte independently, and zero, and only zero, to zero. Only without overhead.
    ZeroByte,
}

impl DataShape {
    /// Returns the shape of an encoding of each byte to one byte independently, of zero, and only of zero, to zero.
    pub const fn bytewise() -> Self {
        Self { block_size: 4096, overhead: 0, holes: Holes::ZeroByte, sparse: false }
    }

    /// Returns the size of a whole lower block in bytes.
    pub const fn encoded_block_size(&self) -> usize {
        self.block_size + self.overhead
    }

    /// Returns the upper size of a file with `encoded` bytes below. A last block too short to hold anything counts as
    /// nothing.
    pub const fn plain_size(&self, encoded: u64) -> u64 {
        let block = self.encoded_block_size() as u64;
        let rest = encoded % block;
        encoded / block * self.block_size as u64 + rest.saturating_sub(self.overhead as u64)
    }

    /// Returns the lower size of a file with `plain` bytes above.
    ///
    /// # Errors
    /// `EFBIG` beyond the maximum size of a file.
    pub fn encoded_size(&self, plain: u64) -> Result<u64> {
        let block = self.block_size as u64;
        let rest = plain % block;
        let last = if rest == 0 { 0 } else { rest + self.overhead as u64 };
        let whole = (plain / block).checked_mul(self.encoded_block_size() as u64);
        whole.and_then(|whole| whole.checked_add(last)).filter(|&size| size <= i64::MAX as u64).ok_or(Errno::EFBIG)
    }
}

/// A block of a file, as passed to the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number, from 0.
    pub number: u64,
    /// Set if the file ends with this block. Reported only with [`super::Layer::marks_last_block`]; otherwise false.
    pub is_last: bool,
}

/// A block of a file with a [block map](super::Layer::block_map), as passed to the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedBlock<'a> {
    /// Its number, from 0.
    pub number: u64,
    /// The [bytes of the layer's own](super::Layer::new_file_header) that are stored with the file.
    pub file_header: &'a [u8],
}

/// Form in which a block of a file with a [block map](super::Layer::block_map) is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockForm {
    /// As the layer encoded it.
    Encoded,
    /// As it is: the layer refused to encode it, for instance because it would not become shorter.
    Verbatim,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_translate_both_ways() {
        let shape = DataShape { block_size: 4096, overhead: 28, holes: Holes::ZeroBlock, sparse: false };
        for plain in [0, 1, 4095, 4096, 4097, 8192, 1_000_000] {
            assert_eq!(shape.plain_size(shape.encoded_size(plain).unwrap()), plain);
        }
        assert_eq!(shape.encoded_size(5000), Ok(4096 + 28 + 904 + 28));
        assert_eq!(shape.plain_size(20), 0);
        assert_eq!(shape.encoded_size(u64::MAX), Err(Errno::EFBIG));
    }
}
