//! Locks by key: whoever holds the lock of one key never keeps those of other keys waiting, however long it takes.
//!
//! A lock exists while it is held or waited for. Whoever wants several takes them in the order of their keys.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Tables, each with a mutex that is never held while somebody waits or works.
const SHARDS: usize = 64;

/// One lock for each key.
#[derive(Debug)]
pub struct KeyedLocks<K> {
    shards: [Shard<K>; SHARDS],
    hasher: RandomState,
}

#[derive(Debug)]
struct Shard<K> {
    locks: Mutex<HashMap<K, State>>,
    released: Condvar,
}

/// How a lock is held. Writers that wait come before later readers.
#[derive(Debug, Default)]
struct State {
    readers: usize,
    is_written: bool,
    writers_waiting: usize,
}

/// A lock that is held, until this is dropped.
#[derive(Debug)]
pub struct KeyedGuard<'a, K: Eq + Hash> {
    shard: &'a Shard<K>,
    key: K,
    is_write: bool,
}

impl<K> Default for KeyedLocks<K> {
    fn default() -> Self {
        let shard = || Shard { locks: Mutex::default(), released: Condvar::new() };
        Self { shards: std::array::from_fn(|_| shard()), hasher: RandomState::new() }
    }
}

impl<K: Clone + Eq + Hash> KeyedLocks<K> {
    /// Waits until nobody else holds the lock of this key.
    pub fn write(&self, key: K) -> KeyedGuard<'_, K> {
        let shard = self.shard(&key);
        let mut locks = shard.lock();
        locks.entry(key.clone()).or_default().writers_waiting += 1;
        loop {
            let state = locks.entry(key.clone()).or_default();
            if state.readers == 0 && !state.is_written {
                state.is_written = true;
                state.writers_waiting -= 1;
                return KeyedGuard { shard, key, is_write: true };
            }
            locks = shard.wait(locks);
        }
    }

    /// Waits until nobody writes under this key, or waits to. Others may read meanwhile.
    pub fn read(&self, key: K) -> KeyedGuard<'_, K> {
        let shard = self.shard(&key);
        let mut locks = shard.lock();
        loop {
            let state = locks.entry(key.clone()).or_default();
            if !state.is_written && state.writers_waiting == 0 {
                state.readers += 1;
                return KeyedGuard { shard, key, is_write: false };
            }
            locks = shard.wait(locks);
        }
    }

    fn shard(&self, key: &K) -> &Shard<K> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

impl<K: Clone + Eq + Hash + Ord> KeyedLocks<K> {
    /// As [`KeyedLocks::write`], of two keys, which may be the same.
    pub fn write_both(&self, one: K, other: K) -> (KeyedGuard<'_, K>, Option<KeyedGuard<'_, K>>) {
        let is_one = one == other;
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        let first = self.write(first);
        (first, (!is_one).then(|| self.write(second)))
    }
}

impl<K> Shard<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, State>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, locks: MutexGuard<'a, HashMap<K, State>>) -> MutexGuard<'a, HashMap<K, State>> {
        self.released.wait(locks).unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for KeyedGuard<'_, K> {
    fn drop(&mut self) {
        let mut locks = self.shard.lock();
        let Some(state) = locks.get_mut(&self.key) else { return };
        match self.is_write {
            true => state.is_written = false,
            false => state.readers -= 1,
        }
        let is_free = state.readers == 0 && !state.is_written;
        if is_free && state.writers_waiting == 0 {
            locks.remove(&self.key);
        }
        drop(locks);
        if is_free {
            self.shard.released.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn whoever_holds_one_key_keeps_no_other_waiting() {
        let locks = KeyedLocks::default();
        let _held = locks.write(0);
        // More than there are tables.
        let guards: Vec<_> = (1..1000).map(|key| locks.write(key)).collect();
        drop(guards);
        assert_eq!(locks.shards.iter().map(|shard| shard.lock().len()).sum::<usize>(), 1);
    }

    #[test]
    fn a_writer_is_alone_and_readers_are_not() {
        let (locks, inside) = (KeyedLocks::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (locks, inside) = (&locks, &inside);
                scope.spawn(move || {
                    for round in 0..5_000 {
                        if (round + thread) % 3 == 0 {
                            let _guard = locks.write(7);
                            assert_eq!(inside.fetch_add(1000, Ordering::SeqCst), 0);
                            inside.fetch_sub(1000, Ordering::SeqCst);
                        } else {
                            let _guard = locks.read(7);
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 1000);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(locks.shards.iter().all(|shard| shard.lock().is_empty()), "nobody holds a lock");
        let (one, other) = (locks.read(1), locks.read(1));
        drop((one, other));
    }

    #[test]
    fn two_keys_are_taken_in_one_order_and_one_key_once() {
        let locks = KeyedLocks::default();
        assert!(locks.write_both(3, 3).1.is_none());
        let (done, is_done) = channel();
        std::thread::scope(|scope| {
            for (one, other) in [(1, 2), (2, 1)] {
                let (locks, done) = (&locks, done.clone());
                scope.spawn(move || {
                    (0..5_000).for_each(|_| drop(locks.write_both(one, other)));
                    done.send(()).unwrap();
                });
            }
            for _ in 0..2 {
                is_done.recv_timeout(Duration::from_secs(60)).expect("nobody waits in a circle");
            }
        });
    }
}
