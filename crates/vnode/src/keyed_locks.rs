//! Locks by key: the holder of one key's lock never blocks those of other keys, however long it holds it.
//!
//! A lock can cover a range of what the key identifies: locks of disjoint ranges are held concurrently. A lock exists
//! while it is held or waited for, and no lock overtakes an earlier one that it has to wait for. Callers that need
//! several locks acquire them in the order of their keys.

use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Cancellation, Result, Sharded};

/// Number of tables, each with a mutex that is never held while a thread waits or works.
const SHARDS: usize = 64;
/// Range that covers all of a key.
const WHOLE: Range<u64> = 0..u64::MAX;

/// One lock for each key.
#[derive(Debug)]
pub struct KeyedLocks<K> {
    shards: Sharded<Shard<K>, SHARDS>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Shard<K> {
    queue: Mutex<Queue<K>>,
    released: Condvar,
}

/// Locks of a table that are held or waited for, in order of arrival.
#[derive(Debug)]
struct Queue<K> {
    locks: Vec<Lock<K>>,
    /// Number of the next lock.
    next: u64,
}

#[derive(Debug)]
struct Lock<K> {
    number: u64,
    key: K,
    range: Range<u64>,
    is_write: bool,
}

/// A held lock, released on drop.
#[derive(Debug)]
pub struct KeyedGuard<'a, K: Eq> {
    shard: &'a Shard<K>,
    number: u64,
}

impl<K> Default for KeyedLocks<K> {
    fn default() -> Self {
        Self { shards: Sharded::default(), hasher: RandomState::new() }
    }
}

impl<K> Default for Shard<K> {
    fn default() -> Self {
        Self { queue: Mutex::new(Queue { locks: Vec::new(), next: 0 }), released: Condvar::new() }
    }
}

impl<K: Eq + Hash> KeyedLocks<K> {
    /// Locks this key for writing: waits until nobody else holds its lock.
    pub fn write(&self, key: K) -> KeyedGuard<'_, K> {
        self.lock(key, WHOLE, true)
    }

    /// As [`KeyedLocks::write`], unless the wait is cancelled.
    ///
    /// # Errors
    /// Those of [`Cancellation::check`].
    pub fn write_unless(&self, cancellation: &Cancellation, key: K) -> Result<KeyedGuard<'_, K>> {
        self.lock_unless(cancellation, key, WHOLE, true)
    }

    /// As [`KeyedLocks::write`], for a range.
    pub fn write_range(&self, key: K, range: Range<u64>) -> KeyedGuard<'_, K> {
        self.lock(key, range, true)
    }

    /// As [`KeyedLocks::write_range`], unless the wait is cancelled.
    ///
    /// # Errors
    /// Those of [`Cancellation::check`].
    pub fn write_range_unless(
        &self,
        cancellation: &Cancellation,
        key: K,
        range: Range<u64>,
    ) -> Result<KeyedGuard<'_, K>> {
        self.lock_unless(cancellation, key, range, true)
    }

    /// Locks this range of the key for reading: waits until no writer holds the range, or has waited for it before.
    /// Others may read concurrently.
    pub fn read_range(&self, key: K, range: Range<u64>) -> KeyedGuard<'_, K> {
        self.lock(key, range, false)
    }

    /// As [`KeyedLocks::read_range`], unless the wait is cancelled.
    ///
    /// # Errors
    /// Those of [`Cancellation::check`].
    pub fn read_range_unless(
        &self,
        cancellation: &Cancellation,
        key: K,
        range: Range<u64>,
    ) -> Result<KeyedGuard<'_, K>> {
        self.lock_unless(cancellation, key, range, false)
    }

    /// Returns whether any caller holds a lock of this key, or waits for it.
    pub fn is_held(&self, key: K) -> bool {
        let shard = self.shards.of_number(self.hasher.hash_one(&key));
        shard.queue().locks.iter().any(|lock| lock.key == key)
    }

    fn lock(&self, key: K, range: Range<u64>, is_write: bool) -> KeyedGuard<'_, K> {
        self.lock_unless(&Cancellation::default(), key, range, is_write).expect("nothing cancels it")
    }

    fn lock_unless(
        &self,
        cancellation: &Cancellation,
        key: K,
        range: Range<u64>,
        is_write: bool,
    ) -> Result<KeyedGuard<'_, K>> {
        let shard = self.shards.of_number(self.hasher.hash_one(&key));
        let mut queue = shard.queue();
        let guard = KeyedGuard { shard, number: queue.join(key, range, is_write) };
        while queue.has_to_wait(guard.number) {
            if let Err(error) = cancellation.check() {
                // The guard takes the mutex again.
                drop(queue);
                return Err(error);
            }
            queue = cancellation.wait(&shard.released, queue);
        }
        Ok(guard)
    }
}

impl<K: Clone + Eq + Hash + Ord> KeyedLocks<K> {
    /// As [`KeyedLocks::write`], for two keys, which may be equal.
    pub fn write_both(&self, one: K, other: K) -> (KeyedGuard<'_, K>, Option<KeyedGuard<'_, K>>) {
        let is_one = one == other;
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        let first = self.write(first);
        (first, (!is_one).then(|| self.write(second)))
    }
}

impl<K> Shard<K> {
    fn queue(&self) -> MutexGuard<'_, Queue<K>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq> Queue<K> {
    fn join(&mut self, key: K, range: Range<u64>, is_write: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        self.locks.push(Lock { number, key, range, is_write });
        number
    }

    /// Returns whether this lock has to wait for an earlier one.
    fn has_to_wait(&self, number: u64) -> bool {
        let place = self.place(number);
        self.locks[..place].iter().any(|earlier| earlier.excludes(&self.locks[place]))
    }

    /// Removes a lock; returns whether another may have been waiting for it.
    fn leave(&mut self, number: u64) -> bool {
        let gone = self.locks.remove(self.place(number));
        self.locks.iter().any(|other| gone.excludes(other))
    }

    /// Returns the index of a lock that has not been removed yet.
    fn place(&self, number: u64) -> usize {
        self.locks.partition_point(|lock| lock.number < number)
    }
}

impl<K: Eq> Lock<K> {
    fn excludes(&self, other: &Lock<K>) -> bool {
        (self.is_write || other.is_write)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
            && self.key == other.key
    }
}

impl<K: Eq> Drop for KeyedGuard<'_, K> {
    fn drop(&mut self) {
        let is_waited_for = self.shard.queue().leave(self.number);
        if is_waited_for {
            self.shard.released.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CancellationSource, Errno};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn whoever_holds_one_key_keeps_no_other_waiting() {
        let locks = KeyedLocks::default();
        let _held = locks.write(0);
        // More keys than there are tables.
        let guards: Vec<_> = (1..1000).map(|key| locks.write(key)).collect();
        drop(guards);
        assert_eq!(locks.shards.iter().map(|shard| shard.queue().locks.len()).sum::<usize>(), 1);
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
                            let _guard = locks.read_range(7, WHOLE);
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 1000);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(locks.shards.iter().all(|shard| shard.queue().locks.is_empty()), "nobody holds a lock");
        let (one, other) = (locks.read_range(1, WHOLE), locks.read_range(1, WHOLE));
        drop((one, other));
    }

    #[test]
    fn distinct_ranges_are_held_side_by_side_and_the_whole_alone() {
        let locks = KeyedLocks::default();
        let below = locks.write_range(7, 0..10);
        let above = locks.read_range(7, 10..20);
        let (done, is_done) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _overlapping = locks.write_range(7, 19..30);
                done.send("overlapping").unwrap();
            });
            assert!(is_done.recv_timeout(Duration::from_millis(50)).is_err(), "somebody reads there");
            drop(locks.read_range(7, 10..19));
            drop(above);
            assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok("overlapping"));
            scope.spawn(|| {
                let _whole = locks.write(7);
                done.send("whole").unwrap();
            });
            assert!(is_done.recv_timeout(Duration::from_millis(50)).is_err(), "the range below is held");
            scope.spawn(|| {
                let _later = locks.read_range(7, 40..41);
                done.send("later").unwrap();
            });
            assert!(is_done.recv_timeout(Duration::from_millis(50)).is_err(), "the whole is waited for");
            drop(below);
            assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok("whole"));
            assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok("later"));
        });
    }

    #[test]
    fn who_is_cancelled_waits_no_longer_and_keeps_nobody_waiting() {
        let (locks, source) = (KeyedLocks::default(), CancellationSource::new());
        let cancellation = source.begin(2, 0);
        drop(locks.write_unless(&cancellation, 7).unwrap());
        let held = locks.read_range(7, 0..10);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| locks.write_range_unless(&cancellation, 7, 5..15).map(drop));
            std::thread::sleep(Duration::from_millis(20));
            source.cancel(2);
            assert_eq!(waiting.join().unwrap(), Err(Errno::EINTR));
            drop(locks.read_range_unless(&cancellation, 7, 5..15).unwrap());
        });
        drop(held);
        assert!(locks.shards.iter().all(|shard| shard.queue().locks.is_empty()));
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
