//! Budget of all name caches of a server together: the cache that is evicted next is the oldest that nobody has used since it
//! was last skipped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Cost of a cached directory besides its names.
const DIRECTORY_COST_NAMES: usize = 16;
/// Minimum number of caches in the queue at which dead ones are removed.
const MIN_SWEEP_LENGTH: usize = 1024;

/// A cache that holds names of a budget.
pub(crate) trait EvictableCache: Send + Sync {
    /// Returns whether it has been used since this was last called.
    fn take_used(&self) -> bool;

    /// Records that it is no longer queued: anything that it caches from here on queues it again.
    fn leave_queue(&self);

    /// Drops its contents.
    fn forget(&self);
}

/// A limit on the number of names, and the caches that hold them.
pub(crate) struct NameBudget {
    max: usize,
    used: AtomicUsize,
    caches: Mutex<CacheQueue>,
}

/// Caches that may hold names, each once, in order of insertion.
struct CacheQueue {
    queue: VecDeque<Weak<dyn EvictableCache>>,
    sweep_at: usize,
}

impl NameBudget {
    pub(crate) const fn new(max: usize) -> Self {
        let caches = CacheQueue { queue: VecDeque::new(), sweep_at: MIN_SWEEP_LENGTH };
        Self { max, used: AtomicUsize::new(0), caches: Mutex::new(caches) }
    }

    /// Queues a cache that now holds something.
    pub(crate) fn enqueue(&self, cache: Weak<dyn EvictableCache>) {
        let mut caches = self.lock();
        if caches.queue.len() >= caches.sweep_at {
            caches.queue.retain(|cache| cache.strong_count() > 0);
            caches.sweep_at = (2 * caches.queue.len()).max(MIN_SWEEP_LENGTH);
        }
        caches.queue.push_back(cache);
    }

    /// Evicts caches as long as all together exceed the limit. The caller holds no cache's lock.
    pub(crate) fn evict_excess(&self) {
        while self.used.load(Ordering::Relaxed) > self.max {
            let Some(cache) = self.next() else { return };
            cache.forget();
        }
    }

    /// Removes the next cache to be evicted from the queue.
    fn next(&self) -> Option<Arc<dyn EvictableCache>> {
        let mut caches = self.lock();
        // A cache in use is skipped, once.
        for _ in 0..=2 * caches.queue.len() {
            let cache = caches.queue.pop_front()?;
            let Some(found) = cache.upgrade() else { continue };
            if found.take_used() {
                caches.queue.push_back(cache);
                continue;
            }
            found.leave_queue();
            return Some(found);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, CacheQueue> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.lock().queue.len()
    }
}

/// A part of a budget, returned when it is dropped.
pub(crate) struct BudgetCharge {
    budget: &'static NameBudget,
    names: usize,
}

impl BudgetCharge {
    /// The charge for a directory with that many names.
    pub(crate) fn new(budget: &'static NameBudget, names: usize) -> Self {
        let names = names + DIRECTORY_COST_NAMES;
        budget.used.fetch_add(names, Ordering::Relaxed);
        Self { budget, names }
    }

    /// Adds one name.
    pub(crate) fn grow(&mut self) {
        self.names += 1;
        self.budget.used.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for BudgetCharge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.names, Ordering::Relaxed);
    }
}
