//! Encoded data: whole blocks below, any range above.
//!
//! Reads and writes operate on whole blocks of the lower file (Wrapfs, section 3.2). A write that covers a block in
//! part reads, decodes, changes and encodes it, under a lock on its blocks that other reads and writes of the file
//! respect: those of other blocks proceed concurrently. Operations that may change the size hold the lock of the whole
//! file; appends become writes at the size determined under that lock (section 3.2.1). The last block of a file may be
//! shorter; it is encoded as it is, and again when it grows. The gap between an old end and a new one far beyond it
//! reads as zeros, and [`Holes`] says how it is stored below.

use std::ops::Range;

use super::blocks::{Blocks, PUNCH};
use super::change::Change;
use super::scratch::Scratch;
use super::shape::Holes;
use super::template::Layer;
use crate::{AllocateMode, Errno, Handle, KeyedGuard, Result, SeekTarget, read_fully};

/// Approximate size in bytes of the pieces in which zeros are written out.
const FILL_SIZE: usize = 1 << 20;

/// Maximum number of bytes saved of a range that is overwritten with zeros. If a larger range fails partway, the rest
/// of it is unchanged.
const ZEROED_BYTES_SAVED: usize = 16 << 20;

impl<L: Layer> Blocks<'_, L> {
    /// Reads the part of the range that the file has; see [`crate::OpenFile::read_at`].
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let _guard = self.shared(offset, offset.saturating_add(buffer.len() as u64))?;
        self.read_locked(offset, buffer)
    }

    /// Writes at `offset`, or at the end; see [`crate::OpenFile::write_at`].
    pub(crate) fn write(&self, offset: Option<u64>, data: &[u8]) -> Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let end = |offset: u64| offset.checked_add(data.len() as u64).ok_or(Errno::EFBIG);
        let (_guard, size_below) = match offset {
            Some(offset) => self.exclusive(offset, end(offset)?, true)?,
            None => self.whole()?,
        };
        let size = self.shape.plain_size(size_below);
        let offset = offset.unwrap_or(size);
        self.shape.encoded_size(end(offset)?)?;
        let end = size.max(end(offset)?);
        self.all_or_nothing(size_below, |change| {
            // A write that begins before the end re-encodes the last block itself.
            if end > size && offset >= size {
                self.unmark_last(change, size, end)?;
            }
            // A short block before the gap is the last until more of it is written.
            change.set_plain_end(if offset.is_multiple_of(self.block()) { end } else { offset.max(size) });
            let size = if offset > size { self.extend(change, size, offset)? } else { size };
            change.set_plain_end(end);
            let written = self.write_locked(change, size, offset, data)?;
            // The block that a short write ends with is not encoded as the last.
            let is_whole = written == data.len() || end == size || !self.marks_last();
            if is_whole { Ok(written) } else { Err(change.failure()) }
        })
    }

    /// Sets the size; see [`crate::OpenFile::truncate`].
    pub(crate) fn truncate(&self, size: u64) -> Result<()> {
        let (_guard, size_below) = self.whole()?;
        let old = self.shape.plain_size(size_below);
        self.shape.encoded_size(size)?;
        self.all_or_nothing(size_below, |change| match size > old {
            true => self.grow(change, old, size),
            false => self.cut(change, old, size),
        })
    }

    /// Shortens the file, or leaves its size unchanged.
    fn cut(&self, change: &mut Change, old: u64, size: u64) -> Result<()> {
        let kept = match (size % self.block()) as usize {
            0 if self.marks_last() => self.block().min(size) as usize,
            kept => kept,
        };
        if size < old && kept > 0 && self.shape.holes != Holes::ZeroByte {
            change.set_plain_end(size);
            // The block that becomes the last is re-encoded in its shorter form before what follows it is removed.
            let start = size - kept as u64;
            let mut plain = Scratch::zeros(self.shape.block_size.min((old - start) as usize))?;
            let before = self.bytes_before(change, start, plain.len())?;
            self.decode_edge(&before, old, start, start, &mut plain)?;
            self.write_all(change, start, &plain[..kept], before)?;
        }
        self.lower.truncate(&self.lower_caller, self.shape.encoded_size(size)?)
    }

    /// Reserves, punches or zeroes; see [`crate::OpenFile::allocate`]. Ranges cannot be collapsed or inserted.
    pub(crate) fn allocate(&self, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        let keep_size = mode.contains(AllocateMode::KEEP_SIZE);
        let zero = mode.bits() & !AllocateMode::KEEP_SIZE.bits() == AllocateMode::ZERO_RANGE.bits();
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let encoded_end = self.shape.encoded_size(end)?;
        let (_guard, size_below) = self.exclusive(offset, end, !keep_size)?;
        let size = self.shape.plain_size(size_below);
        let grows = end > size && !keep_size;
        if mode == PUNCH || zero {
            let within = if keep_size { end.min(size) } else { end };
            return self.all_or_nothing(size_below, |change| {
                if grows {
                    self.grow(change, size, end)?;
                }
                if offset < within { self.zero(change, size.max(within), offset, within) } else { Ok(()) }
            });
        }
        if mode.bits() & !AllocateMode::KEEP_SIZE.bits() != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let start = offset / self.block() * self.shape.encoded_block_size() as u64;
        let below = AllocateMode::KEEP_SIZE;
        self.lower.allocate(&self.lower_caller, below, start, encoded_end - start)?;
        if grows { self.all_or_nothing(size_below, |change| self.grow(change, size, end)) } else { Ok(()) }
    }

    /// Finds data or a hole; see [`crate::OpenFile::seek`].
    pub(crate) fn seek(&self, offset: u64, target: SeekTarget) -> Result<u64> {
        let _guard = self.shared(offset, u64::MAX)?;
        let size = self.size()?;
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        match (self.shape.holes, target) {
            (Holes::ZeroByte, _) => self.lower.seek(&self.lower_caller, offset, target),
            (Holes::Filled, SeekTarget::Data) => Ok(offset),
            (Holes::Filled, SeekTarget::Hole) => Ok(size),
            (Holes::ZeroBlock, SeekTarget::Data) => {
                let data = self.data_block(offset / self.block())?;
                Some((data * self.block()).max(offset)).filter(|&data| data < size).ok_or(Errno::ENXIO)
            }
            (Holes::ZeroBlock, SeekTarget::Hole) => self.hole(offset, size),
        }
    }

    /// Returns the first block at or after `block` that has any data below. A block that shares its lower page with a
    /// neighbour's data counts only if it is not all zeros.
    fn data_block(&self, mut block: u64) -> Result<u64> {
        const PAGE_SIZE: usize = 4096;
        let encoded_size = self.shape.encoded_block_size();
        let mut encoded = Scratch::take(encoded_size)?;
        for _ in 0..PAGE_SIZE / encoded_size + 2 {
            let position = block * encoded_size as u64;
            block = self.lower.seek(&self.lower_caller, position, SeekTarget::Data)? / encoded_size as u64;
            let length = read_fully(self.lower, &self.lower_caller, block * encoded_size as u64, &mut encoded)?;
            if length < encoded_size || encoded.iter().any(|&byte| byte != 0) {
                break;
            }
            block += 1;
        }
        Ok(block)
    }

    /// Returns the first byte at or after `offset` in a block that is entirely a hole below, or the end of the file.
    fn hole(&self, offset: u64, size: u64) -> Result<u64> {
        let encoded_block = self.shape.encoded_block_size() as u64;
        let mut block = offset / self.block();
        while block * self.block() < size {
            self.caller.cancellation().check()?;
            let start = (block * self.block()).max(offset);
            match self.data_block(block) {
                Ok(data) if data > block => return Ok(start),
                Ok(_) => {}
                Err(Errno::ENXIO) => return self.hole_or_end(offset, start),
                Err(error) => return Err(error),
            }
            let hole = match self.lower.seek(&self.lower_caller, block * encoded_block, SeekTarget::Hole) {
                Err(Errno::ENXIO) => return self.hole_or_end(offset, u64::MAX),
                hole => hole?,
            };
            block = (hole / encoded_block).max(block + 1);
        }
        self.hole_or_end(offset, size)
    }

    /// Returns the result of a search for a hole from `offset` on, if there is no data below from `start` on: the hole,
    /// or the end of the file if that comes first because others have meanwhile truncated it below.
    fn hole_or_end(&self, offset: u64, start: u64) -> Result<u64> {
        let size = self.size()?;
        if offset < size { Ok(start.min(size)) } else { Err(Errno::ENXIO) }
    }

    /// Reads the part of the range that a file of `size` bytes has, with the lock held. The rest of the buffer stays as
    /// it is.
    ///
    /// # Errors
    /// `EIO` if the lower file has less than its size indicates: what is missing must not be written back as zeros.
    fn read_within(&self, size: u64, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        if self.read_locked(offset, &mut buffer[..length])? == length { Ok(()) } else { Err(Errno::EIO) }
    }

    /// Reads with the lock held.
    fn read_locked(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if buffer.is_empty() || offset > i64::MAX as u64 {
            return Ok(0);
        }
        let (block_size, encoded_size) = (self.shape.block_size, self.shape.encoded_block_size());
        let first = offset / self.block();
        let skip = (offset % self.block()) as usize;
        let count = (skip + buffer.len()).div_ceil(block_size);
        let mut encoded = Scratch::take(count * encoded_size)?;
        let size = if self.marks_last() { self.size()? } else { u64::MAX };
        let length = read_fully(self.lower, &self.lower_caller, first * encoded_size as u64, &mut encoded)?;
        let mut done = 0;
        for (index, encoded) in encoded[..length].chunks(encoded_size).enumerate() {
            let Some(plain_length) = encoded.len().checked_sub(self.shape.overhead) else { break };
            let block = first + index as u64;
            let from = if index == 0 { skip.min(plain_length) } else { 0 };
            let part = (plain_length - from).min(buffer.len() - done);
            let place = &mut buffer[done..done + part];
            if part == plain_length {
                self.decode(size, block, encoded, place)?;
            } else {
                let mut whole = Scratch::take(plain_length)?;
                self.decode(size, block, encoded, &mut whole)?;
                place.copy_from_slice(&whole[from..from + part]);
            }
            done += part;
        }
        Ok(done)
    }

    /// Decodes a block of a file of `size` bytes.
    fn decode(&self, size: u64, block: u64, encoded: &[u8], plain: &mut [u8]) -> Result<()> {
        let whole = encoded.len() == self.shape.encoded_block_size();
        let may_be_hole = self.shape.holes == Holes::ZeroBlock && (whole || self.shape.sparse);
        if may_be_hole && encoded.iter().all(|&byte| byte == 0) {
            plain.fill(0);
            return Ok(());
        }
        self.node.layer().decode_data(self.node, self.caller, self.numbered(size, block), encoded, plain)
    }

    /// Re-encodes the last block of a file of `size` bytes, if it is whole and a file of `end` bytes continues after
    /// it.
    fn unmark_last(&self, change: &mut Change, size: u64, end: u64) -> Result<()> {
        if !self.marks_last() || size == 0 || !size.is_multiple_of(self.block()) {
            return Ok(());
        }
        let start = size - self.block();
        let mut plain = Scratch::zeros(self.shape.block_size)?;
        let before = self.bytes_before(change, start, plain.len())?;
        self.decode_edge(&before, size, start, start, &mut plain)?;
        change.set_plain_end(end);
        self.write_all(change, start, &plain, before)
    }

    /// Writes `data` at `offset` into a file of `size` bytes, with the lock held. The rest of the first and last blocks
    /// is preserved; `offset` may be past the end only if zeros are holes byte by byte.
    fn write_locked(&self, change: &mut Change, size: u64, offset: u64, data: &[u8]) -> Result<usize> {
        let start = offset - offset % self.block();
        let end = offset + data.len() as u64;
        let last = end - 1 - (end - 1) % self.block();
        let kept_end = size.min(last + self.block()).max(end);
        let length = (kept_end - start) as usize;
        if offset == start && kept_end == end {
            // What cannot be read cannot be lost either.
            let before = self.bytes_before(change, start, length).unwrap_or_default();
            return self.write_blocks(change, start, data, before);
        }
        let mut plain = Scratch::zeros(length)?;
        let before = self.bytes_before(change, start, length)?;
        if offset > start {
            self.decode_edge(&before, size, start, start, &mut plain[..self.shape.block_size.min(length)])?;
        }
        if kept_end > end && (last > start || offset == start) {
            self.decode_edge(&before, size, start, last, &mut plain[(last - start) as usize..])?;
        }
        plain[(offset - start) as usize..(end - start) as usize].copy_from_slice(data);
        let written = self.write_blocks(change, start, &plain, before)? as u64;
        // A short write below counts up to its last whole block.
        match (start + written).min(end).saturating_sub(offset) {
            0 => Err(change.failure()),
            count => Ok(count as usize),
        }
    }

    /// Returns the encoded bytes of the blocks of `length` bytes from `start`, which a write of these blocks replaces
    /// below. Empty if a write that fails partway is done byte by byte.
    fn bytes_before(&self, change: &Change, start: u64, length: usize) -> Result<Scratch> {
        if self.shape.holes == Holes::ZeroByte {
            return Scratch::take(0);
        }
        let position = self.position(start);
        let encoded = length.div_ceil(self.shape.block_size) * self.shape.encoded_block_size();
        let mut before = Scratch::take(change.end().saturating_sub(position).min(encoded as u64) as usize)?;
        let read = read_fully(self.lower, &self.lower_caller, position, &mut before)?;
        if read == before.len() { Ok(before) } else { Err(Errno::EIO) }
    }

    /// Decodes the part of the block at `at` that a file of `size` bytes has, from `before`, the encoded bytes of the
    /// blocks from `start`.
    fn decode_edge(&self, before: &[u8], size: u64, start: u64, at: u64, plain: &mut [u8]) -> Result<()> {
        if self.shape.holes == Holes::ZeroByte {
            return self.read_within(size, at, plain);
        }
        let length = size.saturating_sub(at).min(plain.len() as u64) as usize;
        if length == 0 {
            return Ok(());
        }
        let from = (self.position(at) - self.position(start)) as usize;
        let encoded = before.get(from..).unwrap_or_default();
        let encoded = &encoded[..encoded.len().min(self.shape.encoded_block_size())];
        let has = encoded.len().checked_sub(self.shape.overhead).filter(|&has| has >= length).ok_or(Errno::EIO)?;
        let mut whole = Scratch::take(has)?;
        self.decode(size, at / self.block(), encoded, &mut whole)?;
        plain[..length].copy_from_slice(&whole[..length]);
        Ok(())
    }

    /// Makes the range from the end `size` to `offset` beyond it read as zeros; the lower size may still be less than
    /// that of `offset` if the layer supports holes. Returns the offset up to which writes must preserve the rest of
    /// partly covered blocks.
    fn extend(&self, change: &mut Change, size: u64, offset: u64) -> Result<u64> {
        if self.shape.holes == Holes::ZeroByte {
            return Ok(size);
        }
        let mut position = size - size % self.block();
        if position < size {
            // The short last block is re-encoded at its new length.
            let end = offset.min(position + self.block());
            let mut plain = Scratch::zeros((end - position) as usize)?;
            let before = self.bytes_before(change, position, plain.len())?;
            self.decode_edge(&before, size, position, position, &mut plain)?;
            self.write_all(change, position, &plain, before)?;
            position = end;
        }
        if self.shape.holes == Holes::ZeroBlock {
            // Whole blocks stay holes; a short one at the new end is not a hole.
            position = position.max(offset - offset % self.block());
        }
        let zeros =
            Scratch::zeros((FILL_SIZE.next_multiple_of(self.shape.block_size)).min((offset - position) as usize))?;
        while position < offset {
            self.caller.cancellation().check()?;
            let part = zeros.len().min((offset - position) as usize);
            let before = self.bytes_before(change, position, part)?;
            self.write_all(change, position, &zeros[..part], before)?;
            position += part as u64;
        }
        Ok(offset)
    }

    /// As [`Self::write_blocks`], but writes everything or fails.
    fn write_all(&self, change: &mut Change, start: u64, plain: &[u8], before: Scratch) -> Result<()> {
        match self.write_blocks(change, start, plain, before)? {
            written if written == plain.len() => Ok(()),
            _ => Err(change.failure()),
        }
    }

    /// Extends the file with zeros, including its lower size.
    fn grow(&self, change: &mut Change, size: u64, end: u64) -> Result<()> {
        self.unmark_last(change, size, end)?;
        change.set_plain_end(end);
        self.extend(change, size, end)?;
        let encoded = self.shape.encoded_size(end)?;
        self.lower.truncate(&self.lower_caller, encoded)?;
        change.set_end(encoded);
        Ok(())
    }

    /// Makes a range within `size` read as zeros, as holes if the layer supports them: these last, since they cannot be
    /// undone.
    fn zero(&self, change: &mut Change, size: u64, offset: u64, end: u64) -> Result<()> {
        let block = self.block();
        if self.shape.holes == Holes::ZeroByte {
            return self.lower.allocate(&self.lower_caller, PUNCH, offset, end - offset);
        }
        let (first, last) = (offset.div_ceil(block) * block, end / block * block);
        if self.shape.holes == Holes::Filled || first >= last {
            return self.write_zeros(change, size, offset, end);
        }
        self.write_zeros(change, size, offset, first)?;
        self.write_zeros(change, size, last, end)?;
        let (from, to) = (self.position(first), self.position(last));
        self.lower.allocate(&self.lower_caller, PUNCH, from, to - from)
    }

    fn write_zeros(&self, change: &mut Change, size: u64, mut offset: u64, end: u64) -> Result<()> {
        if offset >= end {
            return Ok(());
        }
        let zeros = Scratch::zeros(FILL_SIZE.min((end - offset) as usize))?;
        let first = change.saved();
        while offset < end {
            self.caller.cancellation().check()?;
            let part = zeros.len().min((end - offset) as usize);
            offset += self.write_locked(change, size, offset, &zeros[..part])? as u64;
            change.forget_more_than(ZEROED_BYTES_SAVED, first);
        }
        Ok(())
    }

    /// Returns the upper size.
    fn size(&self) -> Result<u64> {
        Ok(self.shape.plain_size(self.size_below()?))
    }

    /// Returns the lower size.
    fn size_below(&self) -> Result<u64> {
        Ok(self.lower.getattr(&self.lower_caller)?.size)
    }

    /// Excludes writers from the blocks of a byte range.
    fn shared(&self, offset: u64, end: u64) -> Result<KeyedGuard<'_, Handle>> {
        let (locks, handle) = (&self.node.mount.data_locks, self.node.lower().handle());
        locks.read_range_unless(self.caller.cancellation(), handle, self.blocks(offset, end))
    }

    /// Excludes everybody else from the blocks of a byte range, or from all blocks if the file is to grow and the range
    /// reaches beyond its end. Also returns the lower size, which nobody else changes meanwhile.
    fn exclusive(&self, offset: u64, end: u64, grows: bool) -> Result<(KeyedGuard<'_, Handle>, u64)> {
        let (locks, handle) = (&self.node.mount.data_locks, self.node.lower().handle());
        let guard = locks.write_range_unless(self.caller.cancellation(), handle, self.blocks(offset, end))?;
        let size = self.size_below()?;
        if !grows || end <= self.shape.plain_size(size) {
            return Ok((guard, size));
        }
        drop(guard);
        self.whole()
    }

    /// Excludes everybody else from the file. Also returns its lower size.
    fn whole(&self) -> Result<(KeyedGuard<'_, Handle>, u64)> {
        let guard = self.node.lock_data(self.caller)?;
        Ok((guard, self.size_below()?))
    }

    /// Returns the numbers of the blocks that a byte range touches.
    fn blocks(&self, offset: u64, end: u64) -> Range<u64> {
        offset / self.block()..end.div_ceil(self.block())
    }
}
