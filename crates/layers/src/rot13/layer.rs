//! The layer `rot13`: encodes and decodes blocks of file data.

use vnode::layer::{Block, DataShape, Holes, Layer, LayerVnode};
use vnode::{Caller, Promises, Result};

use super::options::{BLOCK_SIZE, NAME};

/// Rotates the letters in file data by 13 places. Every byte is encoded by itself to one byte, and zero to zero, so
/// holes stay holes.
#[derive(Debug)]
pub struct Rot13 {
    /// Number of bytes encoded at a time.
    pub(crate) block_size: usize,
}

impl Layer for Rot13 {
    type State = ();

    fn kind(&self) -> &'static str {
        NAME
    }

    fn details(&self) -> String {
        if self.block_size == BLOCK_SIZE { String::new() } else { format!("block-size={}", self.block_size) }
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: self.block_size, overhead: 0, holes: Holes::ZeroByte, sparse: false })
    }

    fn encode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, plain: &[u8], encoded: &mut [u8]) -> Result<()> {
        rotate(plain, encoded);
        Ok(())
    }

    fn decode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, encoded: &[u8], plain: &mut [u8]) -> Result<()> {
        rotate(encoded, plain);
        Ok(())
    }
}

/// Rotates letters without branching, so that many bytes are processed at once.
fn rotate(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.iter().zip(to) {
        let places = match (from | 0x20).wrapping_sub(b'a') {
            0..13 => 13,
            13..26 => 13u8.wrapping_neg(),
            _ => 0,
        };
        *to = from.wrapping_add(places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotating_twice_changes_nothing_and_zero_stays_zero() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut once, mut twice) = ([0; 256], [0; 256]);
        rotate(&all, &mut once);
        rotate(&once, &mut twice);
        assert_eq!(twice[..], all);
        assert_eq!((once[0], once[usize::from(b'a')], once[usize::from(b'Z')]), (0, b'n', b'M'));
    }
}
