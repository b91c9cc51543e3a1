//! Table of live objects by their handles.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vnode::Handle;

const SHARD_COUNT: usize = 64;
/// Minimum capacity that is retained.
const MIN_SHARD_CAPACITY: usize = 256;

/// Live objects by their handles.
pub(crate) struct LiveTable<N> {
    shards: Vec<Mutex<HashMap<Handle, Weak<N>>>>,
    has_other_handles: AtomicBool,
    hasher: RandomState,
}

impl<N> Default for LiveTable<N> {
    fn default() -> Self {
        let shards = (0..SHARD_COUNT).map(|_| Mutex::default()).collect();
        Self { shards, has_other_handles: AtomicBool::new(false), hasher: RandomState::new() }
    }
}

impl<N> LiveTable<N> {
    /// The live object with this handle.
    pub(crate) fn find(&self, handle: &Handle) -> Option<Arc<N>> {
        self.shard(handle).get(handle)?.upgrade()
    }

    /// The live object with this handle, or `Err` with a new one.
    pub(crate) fn find_or_insert(&self, handle: &Handle, new: impl FnOnce() -> Arc<N>) -> Result<Arc<N>, Arc<N>> {
        let mut shard = self.shard(handle);
        if let Some(live) = shard.get(handle).and_then(Weak::upgrade) {
            return Ok(live);
        }
        let new = new();
        shard.insert(*handle, Arc::downgrade(&new));
        Err(new)
    }

    /// Makes an object reachable by another handle too.
    pub(crate) fn add_handle(&self, handle: &Handle, object: &Arc<N>) {
        self.has_other_handles.store(true, Ordering::Relaxed);
        self.shard(handle).insert(*handle, Arc::downgrade(object));
    }

    /// Returns whether objects are found by other handles than their own.
    pub(crate) fn has_other_handles(&self) -> bool {
        self.has_other_handles.load(Ordering::Relaxed)
    }

    /// All live objects; one with several handles as often.
    pub(crate) fn all(&self) -> Vec<Arc<N>> {
        let shards = self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner));
        shards.flat_map(|shard| shard.values().filter_map(Weak::upgrade).collect::<Vec<_>>()).collect()
    }

    /// Removes an object that has ended. Another may have taken its slot already.
    pub(crate) fn forget(&self, handle: &Handle) {
        let mut shard = self.shard(handle);
        if shard.get(handle).is_some_and(|object| object.strong_count() == 0) {
            shard.remove(handle);
            shrink_sparse(&mut shard);
        }
    }

    fn shard(&self, handle: &Handle) -> MutexGuard<'_, HashMap<Handle, Weak<N>>> {
        let shard = self.hasher.hash_one(handle) as usize % SHARD_COUNT;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shrinks a map of which at most an eighth is in use.
fn shrink_sparse<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > MIN_SHARD_CAPACITY && map.capacity() / 8 > map.len() {
        map.shrink_to(2 * map.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_table_shrinks() {
        let mut map: HashMap<usize, usize> = (0..100_000).map(|number| (number, number)).collect();
        for number in 0..100_000 {
            map.remove(&number);
            shrink_sparse(&mut map);
        }
        assert!(map.capacity() <= 2 * MIN_SHARD_CAPACITY, "{}", map.capacity());
    }
}
