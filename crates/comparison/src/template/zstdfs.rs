//! Zstdfs compresses data, 64 KiB at a time. What a chunk does not need of its room below is a hole.

use vnode::layer::{Block, DataShape, Holes, Layer, LayerVnode};
use vnode::{Caller, Errno, Promises, Result};

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// How much longer a chunk that cannot be compressed may become, with its length in front of it: a page.
const ROOM_BYTES: usize = 4096;
/// The bytes that tell how long an encoded chunk is.
const LENGTH_BYTES: usize = 4;

/// Compresses data.
pub struct Zstdfs;

impl Layer for Zstdfs {
    type State = ();

    fn kind(&self) -> &'static str {
        "zstdfs"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: CHUNK_BYTES, overhead: ROOM_BYTES, holes: Holes::ZeroBlock, sparse: true })
    }

    fn encode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, plain: &[u8], encoded: &mut [u8]) -> Result<()> {
        let (length, room) = encoded.split_at_mut(LENGTH_BYTES);
        let level = zstd::DEFAULT_COMPRESSION_LEVEL;
        let made = zstd::bulk::compress_to_buffer(plain, room, level).map_err(|_| Errno::EIO)?;
        room[made..].fill(0);
        length.copy_from_slice(&(made as u32).to_le_bytes());
        Ok(())
    }

    fn decode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, encoded: &[u8], plain: &mut [u8]) -> Result<()> {
        let (length, room) = encoded.split_at(LENGTH_BYTES);
        let length = u32::from_le_bytes(length.try_into().map_err(|_| Errno::EBADMSG)?);
        let coded = room.get(..length as usize).ok_or(Errno::EBADMSG)?;
        let made = zstd::bulk::decompress_to_buffer(coded, plain).map_err(|_| Errno::EBADMSG)?;
        if made == plain.len() { Ok(()) } else { Err(Errno::EBADMSG) }
    }
}
