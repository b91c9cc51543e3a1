//! Giving memory back: after the kernel has forgotten many nodes, the allocator is asked to return what they took.

use std::sync::atomic::{AtomicU64, Ordering};

/// So many nodes must have gone since the last time.
const NODES_WORTH_IT: u64 = 100_000;

#[derive(Default)]
pub(crate) struct Trimmer {
    gone: AtomicU64,
}

impl Trimmer {
    /// A node went; `left` remain. Trims when at least as many went as remain.
    pub(crate) fn node_went(&self, left: u64) {
        let gone = self.gone.fetch_add(1, Ordering::Relaxed) + 1;
        if gone >= NODES_WORTH_IT && gone >= left {
            self.gone.store(0, Ordering::Relaxed);
            trim();
        }
    }
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: the allocator may be asked at any time, from any thread; the argument is how many bytes to keep.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators give memory back by themselves.
#[cfg(not(target_env = "gnu"))]
fn trim() {}
