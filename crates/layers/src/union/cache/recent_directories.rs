//! Cache of directories found by listings: a process that lists a directory usually descends into its subdirectories, and
//! finding one again in many branches is expensive. They are kept for a moment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// Maximum number of cached directories.
const MAX_RECENT_DIRECTORIES: usize = 256;
/// Time after which they are looked up again.
const ENTRY_LIFETIME: Duration = Duration::from_secs(1);

/// The most recently found directories.
pub(crate) struct RecentDirectories<N> {
    /// Whether the cache is on. It must be emptied in the end: it keeps the union alive, which keeps the cache.
    is_enabled: AtomicBool,
    entries: Mutex<RecentEntries<N>>,
}

struct RecentEntries<N> {
    found: HashMap<EntryKey, RecentEntry<N>>,
    /// Order of insertion.
    order: VecDeque<EntryKey>,
}

/// Address of the parent, and hash of the name in it.
pub(crate) type EntryKey = (usize, u64);

struct RecentEntry<N> {
    node: Arc<N>,
    /// The parent's change counter when it was found.
    changed: u64,
    found_at: Instant,
}

impl<N> Default for RecentDirectories<N> {
    fn default() -> Self {
        Self { is_enabled: AtomicBool::new(false), entries: Mutex::default() }
    }
}

impl<N> Default for RecentEntries<N> {
    fn default() -> Self {
        Self { found: HashMap::new(), order: VecDeque::new() }
    }
}

impl<N> RecentDirectories<N> {
    /// Turns the cache on.
    pub(crate) fn enable(&self) {
        self.is_enabled.store(true, Ordering::Relaxed);
    }

    /// Empties the cache.
    pub(crate) fn clear(&self) {
        let entries = std::mem::take(&mut *self.lock_entries());
        // Vnodes end here, which may take locks.
        drop(entries);
    }

    /// Empties the cache, and turns it off.
    pub(crate) fn disable(&self) {
        self.is_enabled.store(false, Ordering::Relaxed);
        self.clear();
    }

    /// Caches a directory, found when its parent had this change counter.
    pub(crate) fn insert(&self, key: EntryKey, node: Arc<N>, changed: u64) {
        let found = RecentEntry { node, changed, found_at: Instant::now() };
        let mut gone = Vec::new();
        {
            let RecentEntries { found: known, order } = &mut *self.lock_entries();
            while let Some(oldest) = order.front()
                && (order.len() >= MAX_RECENT_DIRECTORIES || known.get(oldest).is_none_or(|found| !found.is_fresh()))
            {
                gone.extend(known.remove(oldest));
                order.pop_front();
            }
            match known.insert(key, found) {
                Some(before) => gone.push(before),
                None => order.push_back(key),
            }
        }
        drop(gone);
    }

    /// A directory that was found a moment ago, if its parent has not changed since.
    pub(crate) fn get(&self, key: EntryKey, changed: u64) -> Option<Arc<N>> {
        if !self.is_enabled() {
            return None;
        }
        let entries = self.lock_entries();
        let found = entries.found.get(&key).filter(|found| found.changed == changed && found.is_fresh())?;
        Some(Arc::clone(&found.node))
    }

    /// Returns whether the cache is on.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    fn lock_entries(&self) -> MutexGuard<'_, RecentEntries<N>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N> RecentEntry<N> {
    fn is_fresh(&self) -> bool {
        self.found_at.elapsed() < ENTRY_LIFETIME
    }
}
