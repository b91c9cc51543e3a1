//! Zstdfs compresses data, 64 KiB at a time. What a block does not need of its room below is a hole.

use rustix::io::Errno;

use super::filtered::{Code, Filtered};
use super::pass_through::{PassThrough, Result};

/// The code.
pub struct Zstandard;

/// The file system.
pub type Zstdfs = Filtered<Zstandard>;

impl Zstdfs {
    /// Shows what lies there.
    pub fn new(below: PassThrough) -> Self {
        Self::over(below, Zstandard)
    }
}

impl Code for Zstandard {
    const BLOCK: usize = 64 << 10;
    const ROOM: usize = 64 << 10;

    fn encode(&self, _number: u64, plain: &[u8]) -> Result<Vec<u8>> {
        zstd::bulk::compress(plain, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(|_| Errno::IO)
    }

    fn decode(&self, _number: u64, coded: &[u8], length: usize) -> Result<Vec<u8>> {
        zstd::bulk::decompress(coded, length).map_err(|_| Errno::IO)
    }
}
