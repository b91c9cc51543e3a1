//! Cache of directories found by listings: a process that lists a directory usually descends into its subdirectories, and
//! finding one again in many branches is expensive. They are kept for a moment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use vnode::{AccessMode, Attributes, Caller, Name, Result};

use crate::union::branch::encoding::hash;
use crate::union::node::Node;

/// Maximum number of cached directories.
const MAX_RECENT_DIRECTORIES: usize = 256;
/// Time after which they are looked up again.
const ENTRY_LIFETIME: Duration = Duration::from_secs(1);

/// The most recently found directories.
#[derive(Default)]
pub(crate) struct RecentDirectories {
    /// Whether the cache is on. It must be emptied in the end: it keeps the union alive, which keeps the cache.
    is_enabled: AtomicBool,
    entries: Mutex<RecentEntries>,
}

#[derive(Default)]
struct RecentEntries {
    found: HashMap<EntryKey, RecentEntry>,
    /// Order of insertion.
    order: VecDeque<EntryKey>,
}

/// Address of the parent, and hash of the name in it.
type EntryKey = (usize, u64);

struct RecentEntry {
    node: Arc<Node>,
    /// The parent's change counter when it was found.
    changed: u64,
    found_at: Instant,
}

impl RecentDirectories {
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

    fn insert(&self, key: EntryKey, found: RecentEntry) {
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

    fn get(&self, key: EntryKey, changed: u64) -> Option<Arc<Node>> {
        if !self.is_enabled() {
            return None;
        }
        let entries = self.lock_entries();
        let found = entries.found.get(&key).filter(|found| found.changed == changed && found.is_fresh())?;
        Some(Arc::clone(&found.node))
    }

    fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    fn lock_entries(&self) -> MutexGuard<'_, RecentEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecentEntry {
    fn is_fresh(&self) -> bool {
        self.found_at.elapsed() < ENTRY_LIFETIME
    }
}

impl Node {
    /// Caches a directory that was found here. The caller holds the lock.
    pub(crate) fn cache_recent(self: &Arc<Self>, stored: Name<'_>, node: Arc<Node>) {
        if !self.union.recent_directories.is_enabled() {
            return;
        }
        let found = RecentEntry { node, changed: self.change_count(), found_at: Instant::now() };
        self.union.recent_directories.insert(self.recent_key(stored), found);
    }

    /// A directory that was found here a moment ago, if nothing has changed. The caller holds the lock.
    pub(crate) fn recent_directory(
        self: &Arc<Self>,
        caller: &Caller,
        stored: Name<'_>,
    ) -> Result<Option<(Arc<Node>, Attributes)>> {
        let Some(node) = self.union.recent_directories.get(self.recent_key(stored), self.change_count()) else {
            return Ok(None);
        };
        if !node.was_last_at(self, stored)
            || node.generation.load(Ordering::Acquire) != self.union.branches.generation()
        {
            return Ok(None);
        }
        if !caller.is_superuser() {
            self.leftmost().vnode.access(caller, AccessMode::EXECUTE)?;
        }
        let attributes = node.leftmost().vnode.getattr(&Caller::server())?;
        Ok((attributes.nlink > 0).then_some((node, attributes)))
    }

    fn recent_key(self: &Arc<Self>, stored: Name<'_>) -> EntryKey {
        (Arc::as_ptr(self) as usize, hash(stored.as_bytes()))
    }
}
