//! A change of encoded blocks that completes as a whole or is rolled back, with the lower content and size before it.
//!
//! Rolling back needs no space: it rewrites only pages that were written and are therefore allocated. Holes are punched
//! at the end, when nothing can fail any more.

use std::borrow::Cow;

use super::blocks::{Blocks, PUNCH};
use super::scratch::Scratch;
use super::shape::Holes;
use super::template::Layer;
use crate::{Errno, Result, read_fully};

/// Granularity of holes and of allocation below, in bytes.
const PAGE_SIZE: u64 = 4096;

/// Lower changes that an operation has made so far.
pub(crate) struct Change {
    /// Lower size when the operation began.
    size: u64,
    /// Current lower size.
    end: u64,
    /// Overwritten encoded bytes with their positions, the earliest first.
    saved: Vec<(u64, Scratch)>,
    /// Lower ranges of zeros that are not needed.
    unused: Vec<(u64, u64)>,
    /// Error that cut the last short write short.
    failure: Errno,
    /// Upper size for which blocks are encoded: the block that ends there is the last.
    plain_end: u64,
}

impl Change {
    /// Sets the upper size of the file for which blocks are encoded from now on.
    pub(crate) fn set_plain_end(&mut self, size: u64) {
        self.plain_end = size;
    }

    /// Returns the lower size as the operation has changed it so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Records that the operation has set the lower size.
    pub(crate) fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Returns the error that cut the last short write short.
    pub(crate) fn failure(&self) -> Errno {
        self.failure
    }

    /// Records a write of the block from `at` to `end`, of which only the part before `used_end` is needed, and the
    /// part before `was_used_end` was needed previously.
    fn set_used(&mut self, at: u64, end: u64, used_end: u64, was_used_end: u64) {
        // An earlier write of this operation may have needed less.
        let earlier = self.unused.iter().filter(|range| (at..end).contains(&range.0)).map(|range| range.1).max();
        self.unused.retain(|range| !(at..end).contains(&range.0));
        let from = used_end.next_multiple_of(PAGE_SIZE);
        let unused_end = was_used_end.next_multiple_of(PAGE_SIZE).max(earlier.unwrap_or(0)).min(end);
        if from < unused_end {
            self.unused.push((from, unused_end));
        }
    }

    /// Number of writes that can be undone.
    pub(crate) fn saved(&self) -> usize {
        self.saved.len()
    }

    /// Discards the writes after the `first` if they overwrote more than this many bytes.
    pub(crate) fn forget_more_than(&mut self, bytes: usize, first: usize) {
        if self.saved[first..].iter().map(|(_, before)| before.len()).sum::<usize>() > bytes {
            self.saved.truncate(first);
        }
    }
}

/// A lower write that ended early: the number of bytes written, and the reason.
struct Broken {
    done: usize,
    failure: Errno,
}

impl<L: Layer> Blocks<'_, L> {
    /// Runs an operation that changes the file. If it fails, the file is restored. `size` is that of the lower file,
    /// which nobody else changes meanwhile.
    pub(crate) fn all_or_nothing<T>(&self, size: u64, operation: impl FnOnce(&mut Change) -> Result<T>) -> Result<T> {
        let mut change = Change {
            size,
            end: size,
            saved: Vec::new(),
            unused: Vec::new(),
            failure: Errno::ENOSPC,
            plain_end: self.shape.plain_size(size),
        };
        let result = operation(&mut change);
        match &result {
            Ok(_) => self.free_unused(&change),
            // The operation's own error is the one to report.
            Err(_) => self.keeping_privileges().undo(change),
        }
        result
    }

    /// Returns the same data for undoing a change, which clears no privileges.
    fn keeping_privileges(&self) -> Blocks<'_, L> {
        let lower_caller = Cow::Owned(self.lower_caller.clone().into_owned().keeping_privileges());
        Blocks { lower_caller, ..*self }
    }

    /// Punches holes where data is not needed. Where that is not possible, the zeros stay.
    fn free_unused(&self, change: &Change) {
        for &(from, end) in &change.unused {
            let _ = self.lower.allocate(&self.lower_caller, PUNCH, from, end - from);
        }
    }

    /// Rolls everything back, the latest first.
    fn undo(&self, mut change: Change) {
        let now = self.lower.getattr(&self.lower_caller).map_or(change.end, |attributes| attributes.size);
        if now < change.size {
            // The storage truncated the file and failed after that: the file is as intended.
            return;
        }
        if now > change.size {
            self.set_size_back(change.size);
        }
        while let Some((position, before)) = change.saved.pop() {
            let length = change.size.saturating_sub(position).min(before.len() as u64) as usize;
            self.restore(position, &before[..length]);
        }
    }

    /// Encodes and writes whole blocks from `start`; if the last is short, it ends the file or is about to. `before` is
    /// what these blocks contain below. Returns the number of upper bytes written, up to the last whole block; all else
    /// is unchanged. Fails if none were written.
    pub(crate) fn write_blocks(&self, change: &mut Change, start: u64, plain: &[u8], before: Scratch) -> Result<usize> {
        let encoded = self.encode(change.plain_end, start, plain)?;
        let position = self.position(start);
        let (old_end, end) = (change.end, position + encoded.len() as u64);
        let written = match self.shape.sparse {
            true => self.write_sparse(change, position, &encoded, &before),
            false => self.write_below(position, &encoded),
        };
        let Err(Broken { done, failure }) = written else {
            change.end = old_end.max(end);
            change.saved.push((position, before));
            return Ok(plain.len());
        };
        let is_by_byte = self.shape.holes == Holes::ZeroByte;
        let kept = if is_by_byte { done } else { done - done % self.shape.encoded_block_size() };
        change.end = if kept > 0 { old_end.max(position + kept as u64) } else { old_end };
        change.failure = failure;
        if !is_by_byte {
            let restoring = self.keeping_privileges();
            restoring.set_size_back(change.end);
            restoring.restore(position + kept as u64, before.get(kept..).unwrap_or_default());
            change.saved.push((position, before));
        }
        let count = if is_by_byte { kept } else { kept / self.shape.encoded_block_size() * self.shape.block_size };
        if count == 0 { Err(failure) } else { Ok(count) }
    }

    /// Writes the used part of blocks, without the zeros up to their ends. Sets the new size of the file first: a crash
    /// then leaves zeros at its end, and no block that appears to be shorter.
    fn write_sparse(
        &self,
        change: &mut Change,
        position: u64,
        encoded: &[u8],
        before: &[u8],
    ) -> std::result::Result<(), Broken> {
        let (size, end) = (self.shape.encoded_block_size(), position + encoded.len() as u64);
        if end > change.end {
            let grown = self.lower.truncate(&self.lower_caller, end);
            grown.map_err(|failure| Broken { done: 0, failure })?;
        }
        let is_known = before.len() as u64 >= change.end.min(end).saturating_sub(position);
        for (index, block) in encoded.chunks(size).enumerate() {
            let at = position + (index * size) as u64;
            let old = before.get(index * size..).unwrap_or_default();
            let was_used = if is_known { used(&old[..old.len().min(block.len())]) } else { block.len() };
            let is_used = used(block);
            // Zeros overwrite what was longer: its pages are allocated.
            let written = self.write_below(at, &block[..is_used.max(was_used)]);
            written.map_err(|broken| Broken { done: index * size + broken.done.min(block.len() - 1), ..broken })?;
            let block_end = at + block.len() as u64;
            change.set_used(at, block_end, at + is_used as u64, at + was_used as u64);
        }
        Ok(())
    }

    /// Writes all of `bytes` below.
    fn write_below(&self, position: u64, bytes: &[u8]) -> std::result::Result<(), Broken> {
        let mut done = 0;
        while done < bytes.len() {
            match self.lower.write_at(&self.lower_caller, position + done as u64, &bytes[done..]) {
                Ok(0) => return Err(Broken { done, failure: Errno::ENOSPC }),
                Ok(more) => done += more,
                Err(failure) => return Err(Broken { done, failure }),
            }
        }
        Ok(())
    }

    /// Truncates the lower file to this size, if it is longer. Tries twice, since a signal may have interrupted the
    /// first attempt.
    fn set_size_back(&self, size: u64) {
        for _ in 0..2 {
            let now = self.lower.getattr(&self.lower_caller).map_or(u64::MAX, |attributes| attributes.size);
            if now <= size || self.lower.truncate(&self.lower_caller, size).is_ok() {
                return;
            }
        }
    }

    /// Restores these bytes in the lower file. Pages that still hold them are not written: they may be holes.
    fn restore(&self, position: u64, before: &[u8]) {
        let mut now = Scratch::take(before.len()).unwrap_or_default();
        let length = read_fully(self.lower, &self.lower_caller, position, &mut now).unwrap_or(0);
        let mut from = 0;
        while from < before.len() {
            let at = position + from as u64;
            let end = before.len().min(from + (PAGE_SIZE - at % PAGE_SIZE) as usize);
            let page = &before[from..end];
            if now[..length].get(from..end) != Some(page) && !self.restore_hole(at, page) {
                let again = |_| self.write_below(at, page).is_ok();
                let _ = (0..2).any(again);
            }
            from = end;
        }
    }

    /// Turns a page that was zeros back into a hole, if possible.
    fn restore_hole(&self, position: u64, page: &[u8]) -> bool {
        used(page) == 0 && self.lower.allocate(&self.lower_caller, PUNCH, position, page.len() as u64).is_ok()
    }
}

/// Returns the length without trailing zeros.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}
