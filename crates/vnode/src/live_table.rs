//! Table of live objects by key, so that all references to one object are to one.

use std::collections::{HashMap, TryReserveError};
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::Sharded;

/// Number of tables, each with a mutex of its own.
const SHARDS: usize = 64;
/// Capacity of a table up to which it is not shrunk.
const CAPACITY_MIN: usize = 256;

/// Objects that are referenced somewhere, such as vnodes by handle. It holds no reference itself: an object that is dropped calls
/// [`LiveTable::forget`].
pub struct LiveTable<K, V> {
    shards: Sharded<Mutex<HashMap<K, Weak<V>>>, SHARDS>,
    hasher: RandomState,
}

impl<K, V> Default for LiveTable<K, V> {
    fn default() -> Self {
        Self { shards: Sharded::default(), hasher: RandomState::new() }
    }
}

impl<K, V> fmt::Debug for LiveTable<K, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LiveTable").finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash, V> LiveTable<K, V> {
    /// Returns the live object of this key.
    pub fn find(&self, key: &K) -> Option<Arc<V>> {
        self.shard(key).get(key).and_then(Weak::upgrade)
    }

    /// Returns the live object of this key, or enters a new one. `make` runs with a part of the table locked: it must
    /// not use the table, nor drop an object.
    pub fn find_or_insert(&self, key: &K, make: impl FnOnce() -> Arc<V>) -> Arc<V> {
        let mut shard = self.shard(key);
        if let Some(live) = shard.get(key).and_then(Weak::upgrade) {
            return live;
        }
        let made = make();
        shard.insert(key.clone(), Arc::downgrade(&made));
        made
    }

    /// Returns all live objects; one that was entered with several keys as often. Those that come or go meanwhile may be among them.
    pub fn all(&self) -> Vec<Arc<V>> {
        // An object may be dropped with the caller's reference to it, which must not be while a part of the table is locked.
        let live = |shard: &Mutex<HashMap<K, Weak<V>>>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.values().filter_map(Weak::upgrade).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(live).collect()
    }

    /// Reserves the memory of one more object, with this key.
    ///
    /// # Errors
    /// There is no memory.
    pub fn reserve(&self, key: &K) -> Result<(), TryReserveError> {
        self.shard(key).try_reserve(1)
    }

    /// Enters an object, in the place of any other with this key.
    pub fn insert(&self, key: K, object: &Arc<V>) {
        self.shard(&key).insert(key, Arc::downgrade(object));
    }

    /// Removes an object that is being dropped, unless a new one has taken its place.
    pub fn forget(&self, key: &K) {
        let mut shard = self.shard(key);
        if shard.get(key).is_some_and(|object| object.strong_count() == 0) {
            shard.remove(key);
            shrink_sparse(&mut shard);
        }
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, HashMap<K, Weak<V>>> {
        self.shards.of_number(self.hasher.hash_one(key)).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shrinks a table of which at most an eighth is in use.
fn shrink_sparse<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.capacity() > CAPACITY_MIN && table.capacity() / 8 > table.len() {
        table.shrink_to(2 * table.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;

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

    #[test]
    fn all_live_objects_are_listed_once_for_each_key() {
        let table = LiveTable::default();
        let objects: Vec<_> = (0..1_000).map(|number| table.find_or_insert(&number, || Arc::new(number))).collect();
        table.insert(1_000, &objects[7]);
        let listed = || {
            let mut listed: Vec<i32> = table.all().iter().map(|object| **object).collect();
            listed.sort_unstable();
            listed
        };
        assert_eq!(listed(), (0..8).chain(7..1_000).collect::<Vec<_>>());
        drop(objects);
        assert_eq!(listed(), [0; 0], "the table holds no reference");
    }

    #[test]
    fn a_table_that_was_large_gives_its_memory_back() {
        let table = LiveTable::default();
        for number in 0..100_000 {
            let object = Arc::new(number);
            table.reserve(&number).unwrap();
            table.insert(number, &object);
        }
        (0..100_000).for_each(|number| table.forget(&number));
        let capacity: usize = table.shards.iter().map(|shard| shard.lock().unwrap().capacity()).sum();
        assert!(capacity <= 2 * SHARDS * CAPACITY_MIN, "{capacity}");
    }
}
