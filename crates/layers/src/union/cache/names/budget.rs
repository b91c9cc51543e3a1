//! Budget of all name caches of a server together: the cache that is evicted next is the oldest that nobody has used since it
//! was last skipped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::NameCache;

/// Cost of a cached directory besides its names.
const DIRECTORY_COST: usize = 16;
/// Minimum number of caches in the queue at which dead ones are removed.
const SWEEP_MIN: usize = 1024;

/// A limit on the number of names, and the caches that hold them.
pub(crate) struct Budget {
    max: usize,
    held: AtomicUsize,
    holders: Mutex<Holders>,
}

/// Caches that may hold names, each once, in order of insertion.
struct Holders {
    queue: VecDeque<Weak<NameCache>>,
    sweep_at: usize,
}

impl Budget {
    pub(crate) const fn new(max: usize) -> Self {
        let holders = Holders { queue: VecDeque::new(), sweep_at: SWEEP_MIN };
        Self { max, held: AtomicUsize::new(0), holders: Mutex::new(holders) }
    }

    /// Queues a cache that now holds something.
    pub(crate) fn enqueue(&self, cache: Weak<NameCache>) {
        let mut holders = self.lock();
        if holders.queue.len() >= holders.sweep_at {
            holders.queue.retain(|cache| cache.strong_count() > 0);
            holders.sweep_at = (2 * holders.queue.len()).max(SWEEP_MIN);
        }
        holders.queue.push_back(cache);
    }

    /// Evicts caches as long as all together exceed the limit. The caller holds no cache's lock.
    pub(crate) fn make_room(&self) {
        while self.held.load(Ordering::Relaxed) > self.max {
            let Some(cache) = self.next() else { return };
            cache.forget();
        }
    }

    /// Removes the next cache to be evicted from the queue.
    fn next(&self) -> Option<Arc<NameCache>> {
        let mut holders = self.lock();
        // A cache in use is skipped, once.
        for _ in 0..=2 * holders.queue.len() {
            let cache = holders.queue.pop_front()?;
            let Some(found) = cache.upgrade() else { continue };
            if found.is_used.swap(false, Ordering::Relaxed) {
                holders.queue.push_back(cache);
                continue;
            }
            // Anything that it caches from here on queues it again.
            found.is_queued.store(false, Ordering::SeqCst);
            return Some(found);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.lock().queue.len()
    }
}

/// A part of a budget, returned when it is dropped.
pub(crate) struct Charge {
    budget: &'static Budget,
    names: usize,
}

impl Charge {
    /// The charge for a directory with that many names.
    pub(crate) fn new(budget: &'static Budget, names: usize) -> Self {
        let names = names + DIRECTORY_COST;
        budget.held.fetch_add(names, Ordering::Relaxed);
        Self { budget, names }
    }

    /// Adds one name.
    pub(crate) fn grow(&mut self) {
        self.names += 1;
        self.budget.held.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.names, Ordering::Relaxed);
    }
}
