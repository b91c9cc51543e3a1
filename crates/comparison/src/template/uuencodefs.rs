//! Uuencodefs writes data below as printable characters: each 3 bytes become 4.

use vnode::layer::{Block, DataShape, Holes, Layer, LayerVnode};
use vnode::{Caller, Promises, Result};

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// How much longer a chunk may become: a third, and up to a whole page.
const ROOM_BYTES: usize = 24 << 10;

/// Writes printable characters.
pub struct Uuencodefs;

impl Layer for Uuencodefs {
    type State = ();

    fn kind(&self) -> &'static str {
        "uuencodefs"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: CHUNK_BYTES, overhead: ROOM_BYTES, holes: Holes::ZeroBlock, sparse: true })
    }

    fn encode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, plain: &[u8], encoded: &mut [u8]) -> Result<()> {
        encoded.fill(0);
        for (from, to) in plain.chunks(3).zip(encoded.chunks_mut(4)) {
            let byte = |index: usize| u32::from(from.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            to.copy_from_slice(&[18, 12, 6, 0].map(|shift| b' ' + (bits >> shift & 63) as u8));
        }
        Ok(())
    }

    fn decode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, encoded: &[u8], plain: &mut [u8]) -> Result<()> {
        for (from, to) in encoded.chunks_exact(4).zip(plain.chunks_mut(3)) {
            let bits = from.iter().fold(0, |bits, byte| bits << 6 | u32::from(byte.wrapping_sub(b' ') & 63));
            to.copy_from_slice(&bits.to_be_bytes()[1..=to.len()]);
        }
        Ok(())
    }
}
