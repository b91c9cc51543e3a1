//! Rot13fs moves letters of data by 13 places.

use vnode::layer::{Block, DataShape, Holes, Layer, LayerVnode};
use vnode::{Caller, Promises, Result};

/// Moves letters.
pub struct Rot13fs;

impl Layer for Rot13fs {
    type State = ();

    fn kind(&self) -> &'static str {
        "rot13fs"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: 4096, overhead: 0, holes: Holes::ZeroByte, sparse: false })
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

fn rotate(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.iter().zip(to) {
        *to = match from {
            b'a'..=b'z' => b'a' + (from - b'a' + 13) % 26,
            b'A'..=b'Z' => b'A' + (from - b'A' + 13) % 26,
            other => *other,
        };
    }
}
