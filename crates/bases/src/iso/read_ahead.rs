//! Read-ahead: which part of a file is announced to the device while the file is read from the beginning to the end.
//!
//! A front end reads a file in pieces, several of them at once, so that neither the order nor the size of these tells the system
//! beneath what is read next.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest distance in bytes of a read from the end of the one before for which a file is read sequentially.
const DISTANCE_MAX: u64 = 1 << 20;
/// Bytes that are read before anything is announced: of many files, only the beginning is.
const START: u64 = 256 << 10;
/// Bytes that are announced ahead of a reader.
const WINDOW: u64 = 8 << 20;

/// How far a file has been read, and how far it has been announced. Readers at several places only make it less useful.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    end: AtomicU64,
    announced: AtomicU64,
}

impl ReadAhead {
    /// Notes a read; returns the part of a file of this size that is to be announced, if any.
    pub(crate) fn note(&self, offset: u64, length: u64, size: u64) -> Option<Range<u64>> {
        let end = offset.saturating_add(length);
        let end_before = self.end.swap(end, Ordering::Relaxed);
        if offset.abs_diff(end_before) > DISTANCE_MAX {
            self.announced.store(end, Ordering::Relaxed);
            return None;
        }
        let announced = self.announced.load(Ordering::Relaxed);
        let limit = end.saturating_add(WINDOW).min(size);
        let start = announced.max(end);
        // In halves of a window, so that most reads announce nothing.
        let is_due = end >= START && start < limit && (limit - start >= WINDOW / 2 || limit == size);
        if !is_due {
            return None;
        }
        self.announced.store(limit, Ordering::Relaxed);
        Some(start..limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 128 << 10;

    #[test]
    fn a_sequential_reader_is_always_ahead_of_by_half_a_window() {
        let (state, size) = (ReadAhead::default(), 100 << 20);
        let (mut announced, mut calls) = (0, 0);
        for offset in (0..size).step_by(PIECE as usize) {
            if let Some(range) = state.note(offset, PIECE, size) {
                assert!(offset > 0 && range.start == announced.max(offset + PIECE) && range.end > range.start);
                announced = range.end;
                calls += 1;
            }
            assert!(offset + PIECE < START || announced >= (offset + PIECE + WINDOW / 2).min(size), "{offset}");
        }
        assert!(announced == size && calls <= size / (WINDOW / 2) + 1, "{calls}");
    }

    #[test]
    fn pieces_may_be_read_in_another_order() {
        let state = ReadAhead::default();
        assert_eq!(state.note(PIECE, PIECE, 4 << 20), Some(2 * PIECE..4 << 20));
        assert_eq!(state.note(0, PIECE, 4 << 20), None);
        assert_eq!(state.note(2 * PIECE, PIECE, 4 << 20), None);
    }

    #[test]
    fn a_random_reader_announces_nothing() {
        let (state, size) = (ReadAhead::default(), 1 << 40);
        let mut offset = 5 << 30;
        for _ in 0..100 {
            assert_eq!(state.note(offset, PIECE, size), None);
            offset = (offset * 7 + (3 << 30)) % size;
        }
    }

    #[test]
    fn numbers_do_not_overflow() {
        let state = ReadAhead::default();
        assert_eq!(state.note(u64::MAX, u64::MAX, u64::MAX), None);
        assert_eq!(state.note(u64::MAX - 1, 1, u64::MAX), None);
    }
}
