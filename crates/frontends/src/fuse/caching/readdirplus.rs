//! The readdirplus heuristic: tracks the directories for which a reader wants more than names.
//!
//! The kernel requests attributes with the first entries of every listing, since it cannot know yet whether they will be used;
//! fetching them costs many times as much as the names. So the first entries come with attributes only if objects of the
//! directory have been looked up and found since the last listing; otherwise they come without, and the kernel looks up what
//! is used, counts that, and requests attributes with the later entries if there was any.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD_COUNT: usize = 1024;

/// One bit per directory, found by its node id. Directories may share a bit, which costs only speed.
pub(crate) struct ReaddirplusHeuristic {
    bits: Box<[AtomicU64]>,
}

impl ReaddirplusHeuristic {
    pub(crate) fn new() -> ReaddirplusHeuristic {
        ReaddirplusHeuristic { bits: (0..WORD_COUNT).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Records that an object of this directory was looked up and found.
    pub(crate) fn record_lookup(&self, directory: u64) {
        let (word, bit) = self.slot(directory);
        // The bit is usually set already, and reading does not take the cache line from other CPUs.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns whether an object of this directory was looked up since the last call.
    pub(crate) fn take_lookup(&self, directory: u64) -> bool {
        let (word, bit) = self.slot(directory);
        word.load(Ordering::Relaxed) & bit != 0 && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    fn slot(&self, directory: u64) -> (&AtomicU64, u64) {
        // Node ids are assigned in sequence: neighbours get neighbouring bits.
        let bit = directory as usize % (WORD_COUNT * 64);
        (&self.bits[bit / 64], 1 << (bit % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_is_taken_once() {
        let readdirplus = ReaddirplusHeuristic::new();
        assert!(!readdirplus.take_lookup(7));
        readdirplus.record_lookup(7);
        readdirplus.record_lookup(7);
        assert!(!readdirplus.take_lookup(8));
        assert!(readdirplus.take_lookup(7));
        assert!(!readdirplus.take_lookup(7));
    }

    #[test]
    fn every_id_has_a_slot() {
        let readdirplus = ReaddirplusHeuristic::new();
        for id in [1, 63, 64, 65_535, 65_536, u64::MAX] {
            readdirplus.record_lookup(id);
            assert!(readdirplus.take_lookup(id), "{id}");
        }
    }
}
