//! The table of live vnodes: one vnode for each object, found by device and inode number.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hashbrown::HashTable;
use vnode::{InodeNumber, Sharded};

const SHARDS: usize = 64;

/// The table. It does not keep vnodes alive.
pub(crate) struct VnodeTable<N> {
    shards: Sharded<Mutex<HashTable<Slot<N>>>, SHARDS>,
}

struct Slot<N> {
    fingerprint: u64,
    node: Weak<N>,
}

/// Returns the hash key: identical for all objects with one device and inode number, also at different times.
pub(crate) fn fingerprint(mount: u16, ino: InodeNumber) -> u64 {
    let mixed = (ino.get() ^ u64::from(mount) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

impl<N> VnodeTable<N> {
    /// Creates an empty table.
    pub(crate) fn new() -> Self {
        Self { shards: Sharded::default() }
    }

    /// Returns the live vnode with that fingerprint that `matches`, or a new one from `make`. Two callers never get two
    /// vnodes.
    pub(crate) fn find_or_insert(
        &self,
        fingerprint: u64,
        matches: impl Fn(&N) -> bool,
        make: impl FnOnce() -> Arc<N>,
    ) -> Arc<N> {
        // Dropped after the guard: dropping the last reference to a vnode takes the shard's lock.
        let mut others = Vec::new();
        let mut shard = self.shard(fingerprint);
        if let Some(node) = find(&shard, fingerprint, matches, &mut others) {
            return node;
        }
        let node = make();
        let slot = Slot { fingerprint, node: Arc::downgrade(&node) };
        shard.insert_unique(fingerprint, slot, |slot| slot.fingerprint);
        node
    }

    /// Returns the live vnode with that fingerprint that `matches`.
    pub(crate) fn find(&self, fingerprint: u64, matches: impl Fn(&N) -> bool) -> Option<Arc<N>> {
        let mut others = Vec::new();
        let shard = self.shard(fingerprint);
        find(&shard, fingerprint, matches, &mut others)
    }

    /// Returns all live vnodes with that fingerprint.
    pub(crate) fn find_all(&self, fingerprint: u64) -> Vec<Arc<N>> {
        let mut all = Vec::new();
        let shard = self.shard(fingerprint);
        find(&shard, fingerprint, |_| false, &mut all);
        all
    }

    /// Removes a vnode that is being dropped. Another one for the object may already be listed.
    pub(crate) fn remove(&self, fingerprint: u64, node: *const N) {
        let mut shard = self.shard(fingerprint);
        if let Ok(slot) = shard.find_entry(fingerprint, |slot| Weak::as_ptr(&slot.node) == node) {
            slot.remove();
        }
        if shard.capacity() > 64 && shard.len() < shard.capacity() / 8 {
            let room = shard.len() * 2;
            shard.shrink_to(room, |slot| slot.fingerprint);
        }
    }

    /// Number of vnodes in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    fn shard(&self, fingerprint: u64) -> MutexGuard<'_, HashTable<Slot<N>>> {
        self.shards.of_hash(fingerprint).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Searches the slots with that fingerprint; live vnodes that do not match are added to `others`.
fn find<N>(
    shard: &HashTable<Slot<N>>,
    fingerprint: u64,
    matches: impl Fn(&N) -> bool,
    others: &mut Vec<Arc<N>>,
) -> Option<Arc<N>> {
    for slot in shard.iter_hash(fingerprint).filter(|slot| slot.fingerprint == fingerprint) {
        match slot.node.upgrade() {
            Some(node) if matches(&node) => return Some(node),
            Some(node) => others.push(node),
            None => {}
        }
    }
    None
}
