//! The encoded blocks of an open file: where each is below, and its encoding.

use std::borrow::Cow;

use super::scratch::Scratch;
use super::shape::{Block, DataShape};
use super::template::{Layer, LayerVnode};
use crate::{AllocateMode, Caller, OpenFile, Result};

/// The encoded blocks of an open file, for one operation.
pub(crate) struct Blocks<'a, L: Layer> {
    pub(crate) node: &'a LayerVnode<L>,
    pub(crate) lower: &'a dyn OpenFile,
    pub(crate) caller: &'a Caller,
    pub(crate) lower_caller: Cow<'a, Caller>,
    pub(crate) shape: DataShape,
}

/// Mode that punches a hole and keeps the size.
pub(crate) const PUNCH: AllocateMode =
    AllocateMode::from_bits(AllocateMode::PUNCH_HOLE.bits() | AllocateMode::KEEP_SIZE.bits());

impl<L: Layer> Blocks<'_, L> {
    /// Returns this block of a file of `size` bytes, as passed to the layer.
    pub(crate) fn numbered(&self, size: u64, block: u64) -> Block {
        Block { number: block, is_last: self.is_last(size, block) }
    }

    /// Returns whether the last block of a file has a form of its own.
    pub(crate) fn marks_last(&self) -> bool {
        self.node.layer().marks_last_block()
    }

    /// Returns whether this block of a file of `size` bytes has the form of the last.
    pub(crate) fn is_last(&self, size: u64, block: u64) -> bool {
        self.marks_last() && (block + 1).saturating_mul(self.block()) >= size
    }

    /// Returns the lower position of the block at `start`.
    pub(crate) fn position(&self, start: u64) -> u64 {
        start / self.block() * self.shape.encoded_block_size() as u64
    }

    /// Encodes whole blocks of a file of `size` bytes from `start`; the last may be short.
    pub(crate) fn encode(&self, size: u64, start: u64, plain: &[u8]) -> Result<Scratch> {
        let first = start / self.block();
        let overhead = plain.len().div_ceil(self.shape.block_size) * self.shape.overhead;
        let mut encoded = Scratch::take(plain.len() + overhead)?;
        let blocks = encoded.chunks_mut(self.shape.encoded_block_size());
        for (index, (plain, encoded)) in plain.chunks(self.shape.block_size).zip(blocks).enumerate() {
            let block = self.numbered(size, first + index as u64);
            self.node.layer().encode_data(self.node, self.caller, block, plain, encoded)?;
        }
        Ok(encoded)
    }

    pub(crate) fn block(&self) -> u64 {
        self.shape.block_size as u64
    }
}
