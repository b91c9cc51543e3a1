//! A cache bounded by bytes: the least recently used values go first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values by key, which take no more than a number of bytes together.
pub(crate) struct Cache<K, V> {
    limit: u64,
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    values: HashMap<K, Cached<V>>,
    /// Keys by the time of their last use.
    uses: BTreeMap<u64, K>,
    time: u64,
    bytes: u64,
}

struct Cached<V> {
    value: Arc<V>,
    bytes: u64,
    used: u64,
}

/// Bytes that the cache itself takes for each value, roughly.
const OVERHEAD: u64 = 128;

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    /// Creates an empty cache of at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        let state = State { values: HashMap::new(), uses: BTreeMap::new(), time: 0, bytes: 0 };
        Self { limit, state: Mutex::new(state) }
    }

    /// Returns the largest number of bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        let mut state = self.lock();
        let State { values, uses, time, .. } = &mut *state;
        let cached = values.get_mut(key)?;
        *time += 1;
        uses.remove(&cached.used);
        uses.insert(*time, *key);
        cached.used = *time;
        Some(Arc::clone(&cached.value))
    }

    /// Adds a value that takes so many bytes, and removes others as needed. One that is larger than the limit is not kept.
    pub(crate) fn insert(&self, key: K, value: &Arc<V>, bytes: u64) {
        let bytes = bytes.saturating_add(OVERHEAD);
        let mut removed = Vec::new();
        let mut state = self.lock();
        removed.extend(state.remove(&key));
        if bytes > self.limit {
            return;
        }
        while state.bytes > self.limit - bytes {
            let Some((_, oldest)) = state.uses.first_key_value().map(|(time, key)| (*time, *key)) else { break };
            removed.extend(state.remove(&oldest));
        }
        state.time += 1;
        let time = state.time;
        state.uses.insert(time, key);
        state.values.insert(key, Cached { value: Arc::clone(value), bytes, used: time });
        state.bytes += bytes;
        // Large values are freed without the lock.
        drop(state);
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Eq + Hash, V> State<K, V> {
    fn remove(&mut self, key: &K) -> Option<Arc<V>> {
        let cached = self.values.remove(key)?;
        self.uses.remove(&cached.used);
        self.bytes -= cached.bytes;
        Some(cached.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(cache: &Cache<u32, u32>) -> Vec<u32> {
        (0..10).filter(|key| cache.get(key).is_some()).collect()
    }

    #[test]
    fn the_least_recently_used_values_go_first() {
        let cache = Cache::new(3 * (OVERHEAD + 10));
        for key in 0..3 {
            cache.insert(key, &Arc::new(key), 10);
        }
        assert_eq!(cache.get(&0).as_deref(), Some(&0));
        cache.insert(3, &Arc::new(3), 10);
        assert_eq!(keys(&cache), [0, 2, 3]);
        cache.insert(4, &Arc::new(4), 2 * OVERHEAD);
        assert_eq!(keys(&cache), [4]);
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let cache = Cache::new(OVERHEAD + 10);
        cache.insert(1, &Arc::new(1), 10);
        cache.insert(2, &Arc::new(2), 11);
        cache.insert(3, &Arc::new(3), u64::MAX);
        assert_eq!(keys(&cache), [1]);
        cache.insert(1, &Arc::new(5), 1);
        assert_eq!(cache.get(&1).as_deref(), Some(&5));
        cache.insert(1, &Arc::new(6), 1000);
        assert!(keys(&cache).is_empty());
    }
}
