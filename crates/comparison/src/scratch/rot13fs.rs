//! Rot13fs moves letters of data by 13 places: what shows best where data go.

use super::filtered::{Code, Filtered};
use super::pass_through::{PassThrough, Result};

/// The code.
pub struct Rot13;

/// The file system.
pub type Rot13fs = Filtered<Rot13>;

impl Rot13fs {
    /// Shows what lies there.
    pub fn new(below: PassThrough) -> Self {
        Self::over(below, Rot13)
    }
}

fn rotate(byte: &u8) -> u8 {
    match byte {
        b'a'..=b'z' => b'a' + (byte - b'a' + 13) % 26,
        b'A'..=b'Z' => b'A' + (byte - b'A' + 13) % 26,
        _ => *byte,
    }
}

impl Code for Rot13 {
    const BLOCK: usize = 4096;
    const ROOM: usize = 0;

    fn encode(&self, _number: u64, plain: &[u8]) -> Result<Vec<u8>> {
        Ok(plain.iter().map(rotate).collect())
    }

    fn decode(&self, number: u64, coded: &[u8], _length: usize) -> Result<Vec<u8>> {
        self.encode(number, coded)
    }
}
