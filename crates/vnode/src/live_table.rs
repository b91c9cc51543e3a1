//! Table of live vnodes by handle, so that all references to one object are to one vnode.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::Handle;

/// Number of tables, each with a mutex of its own.
const SHARDS: usize = 64;

/// Vnodes that are referenced somewhere, by handle. It holds no reference itself: a vnode that is dropped calls
/// [`LiveTable::forget`].
pub struct LiveTable<V> {
    shards: [Mutex<HashMap<Handle, Weak<V>>>; SHARDS],
    hasher: RandomState,
}

impl<V> Default for LiveTable<V> {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl<V> fmt::Debug for LiveTable<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LiveTable").finish_non_exhaustive()
    }
}

impl<V> LiveTable<V> {
    /// Returns the live vnode of this handle.
    pub fn find(&self, handle: &Handle) -> Option<Arc<V>> {
        self.shard(handle).get(handle).and_then(Weak::upgrade)
    }

    /// Returns the live vnode of this handle, or enters a new one. `make` runs with a part of the table locked: it must
    /// not use the table, nor drop a vnode.
    pub fn find_or_insert(&self, handle: &Handle, make: impl FnOnce() -> Arc<V>) -> Arc<V> {
        let mut shard = self.shard(handle);
        if let Some(live) = shard.get(handle).and_then(Weak::upgrade) {
            return live;
        }
        let made = make();
        shard.insert(*handle, Arc::downgrade(&made));
        made
    }

    /// Removes a vnode that is being dropped, unless a new one has taken its place.
    pub fn forget(&self, handle: &Handle) {
        let mut shard = self.shard(handle);
        if shard.get(handle).is_some_and(|vnode| vnode.strong_count() == 0) {
            shard.remove(handle);
        }
    }

    fn shard(&self, handle: &Handle) -> MutexGuard<'_, HashMap<Handle, Weak<V>>> {
        let index = self.hasher.hash_one(handle) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_has_one_vnode_while_that_is_referenced() {
        let (table, handle) = (LiveTable::default(), Handle::new(b"a").unwrap());
        let first = table.find_or_insert(&handle, || Arc::new(1));
        assert!(Arc::ptr_eq(&first, &table.find_or_insert(&handle, || Arc::new(2))));
        table.forget(&handle);
        assert_eq!(table.find(&handle).as_deref(), Some(&1), "a live vnode stays");
        drop(first);
        assert_eq!(table.find(&handle), None);
        let second = table.find_or_insert(&handle, || Arc::new(3));
        table.forget(&handle);
        assert_eq!(table.find(&handle), Some(second), "the drop of the old vnode does not remove the new one");
    }
}
