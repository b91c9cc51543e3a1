//! Uuencodefs writes data below as printable characters: each 3 bytes become 4.

use super::filtered::{Code, Filtered};
use super::pass_through::{PassThrough, Result};

/// The code.
pub struct Uuencode;

/// The file system.
pub type Uuencodefs = Filtered<Uuencode>;

impl Uuencodefs {
    /// Shows what lies there.
    pub fn new(below: PassThrough) -> Self {
        Self::over(below, Uuencode)
    }
}

impl Code for Uuencode {
    const BLOCK: usize = 64 << 10;
    const ROOM: usize = 64 << 10;

    fn encode(&self, _number: u64, plain: &[u8]) -> Result<Vec<u8>> {
        let characters = plain.chunks(3).flat_map(|three| {
            let byte = |index| u32::from(three.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            [18, 12, 6, 0].map(|shift| b' ' + (bits >> shift & 63) as u8)
        });
        Ok(characters.collect())
    }

    fn decode(&self, _number: u64, coded: &[u8], length: usize) -> Result<Vec<u8>> {
        let bytes = coded.chunks_exact(4).flat_map(|four| {
            let bits = four.iter().fold(0, |bits, byte| bits << 6 | u32::from(byte.wrapping_sub(b' ') & 63));
            [16, 8, 0].map(|shift| (bits >> shift) as u8)
        });
        Ok(bytes.take(length).collect())
    }
}
