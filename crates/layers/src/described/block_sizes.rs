//! Sizes of the blocks of data that filters see.

/// Size of a page of data in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Size of a chunk of data in bytes, for filters that change sizes.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// Maximum number of bytes by which encoding may lengthen a chunk, including its length prefix.
pub(crate) const MAX_CHUNK_OVERHEAD: usize = 64 << 10;
