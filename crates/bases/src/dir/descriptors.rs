//! A bounded cache of open directories: `O_PATH` descriptors by vnode, least recently used closed first.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use vnode::Sharded;

use super::shares::{self, may_retain};

const SHARDS: usize = 16;
/// Approximate number of other descriptors that the process has open.
const OTHER_DESCRIPTORS: usize = 256;

/// Number of descriptors that all caches together may hold.
static EXPECTED_DESCRIPTORS: AtomicUsize = AtomicUsize::new(0);

/// The cache. Keys are the addresses of live vnodes: each vnode removes its own when it is dropped.
pub(crate) struct DescriptorCache {
    shards: Sharded<Mutex<Shard>, SHARDS>,
    capacity: usize,
}

/// A shard of the cache: a ring of slots with a clock hand that closes descriptors not used since its last pass.
#[derive(Default)]
struct Shard {
    slots: Vec<Slot>,
    positions: HashMap<usize, usize>,
    hand: usize,
}

struct Slot {
    key: usize,
    descriptor: Arc<OwnedFd>,
    used: bool,
}

impl DescriptorCache {
    /// Creates a cache of at most about `limit` descriptors.
    pub(crate) fn new(limit: usize) -> Self {
        let capacity = (limit / SHARDS).max(1);
        EXPECTED_DESCRIPTORS.fetch_add(capacity * SHARDS, Ordering::Relaxed);
        Self { shards: Sharded::default(), capacity }
    }

    /// Returns the cached descriptor of a vnode.
    pub(crate) fn get(&self, key: usize) -> Option<Arc<OwnedFd>> {
        let mut shard = self.shard(key);
        let position = *shard.positions.get(&key)?;
        let slot = &mut shard.slots[position];
        slot.used = true;
        Some(Arc::clone(&slot.descriptor))
    }

    /// Caches a descriptor, evicting another if the cache is full; does nothing if few descriptors are left for others.
    pub(crate) fn insert(&self, key: usize, descriptor: Arc<OwnedFd>) {
        if !may_retain(&*descriptor) {
            return;
        }
        // Declared before the guard and so dropped after it: closing may take long.
        let _replaced;
        let mut shard = self.shard(key);
        let slot = Slot { key, descriptor, used: false };
        if let Some(&position) = shard.positions.get(&key) {
            _replaced = std::mem::replace(&mut shard.slots[position], slot);
        } else if shard.slots.len() < self.capacity {
            let position = shard.slots.len();
            shard.slots.push(slot);
            shard.positions.insert(key, position);
        } else {
            let position = shard.position_to_evict();
            _replaced = std::mem::replace(&mut shard.slots[position], slot);
            let evicted = _replaced.key;
            shard.positions.remove(&evicted);
            shard.positions.insert(key, position);
        }
    }

    /// Removes a vnode's descriptor.
    pub(crate) fn remove(&self, key: usize) {
        let _removed;
        let mut shard = self.shard(key);
        let Some(position) = shard.positions.remove(&key) else { return };
        _removed = shard.slots.swap_remove(position);
        if let Some(moved) = shard.slots.get(position).map(|slot| slot.key) {
            shard.positions.insert(moved, position);
        }
    }

    /// Closes all descriptors that are not in use, to make room for others.
    pub(crate) fn clear(&self) {
        for shard in self.shards.iter() {
            let _cleared = std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Number of open descriptors.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().slots.len()).sum()
    }

    fn shard(&self, key: usize) -> std::sync::MutexGuard<'_, Shard> {
        // The low bits of an address are always zero.
        self.shards.of_number(key as u64 >> 6).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DescriptorCache {
    fn drop(&mut self) {
        EXPECTED_DESCRIPTORS.fetch_sub(self.capacity * SHARDS, Ordering::Relaxed);
    }
}

impl Shard {
    fn position_to_evict(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[self.hand];
            if !std::mem::take(&mut slot.used) {
                return self.hand;
            }
        }
    }
}

/// Makes the process's descriptor table large enough for all caches, using any descriptor. It would grow by itself, but in a
/// multi-threaded process each growth takes milliseconds in the middle of an operation.
pub(crate) fn grow_descriptor_table(any: impl AsFd) {
    let wanted = EXPECTED_DESCRIPTORS.load(Ordering::Relaxed) + OTHER_DESCRIPTORS;
    if let Ok(last) = i32::try_from(wanted.min(shares::limit().saturating_sub(1))) {
        // A failure has no effect other than slower growth.
        let _ = rustix::io::fcntl_dupfd_cloexec(any, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Arc<OwnedFd> {
        Arc::new(std::fs::File::open("/").unwrap().into())
    }

    #[test]
    fn descriptor_table_is_grown_for_all_caches() {
        let _cache = DescriptorCache::new(SHARDS * 32);
        grow_descriptor_table(descriptor());
        let size = procfs::Process::Own.status().unwrap().unwrap().descriptor_table_size();
        assert!(size >= Some(SHARDS * 32), "{size:?}");
    }

    #[test]
    fn cache_is_bounded_and_keeps_used_entries() {
        let cache = DescriptorCache::new(SHARDS * 4);
        cache.insert(64, descriptor());
        for key in 2..1_000 {
            assert!(cache.get(64).is_some(), "used before each insertion");
            cache.insert(key * 64, descriptor());
            assert!(cache.len() <= SHARDS * 4);
        }
        cache.remove(64);
        assert!(cache.get(64).is_none());
        let before = cache.len();
        cache.remove(64);
        assert_eq!(cache.len(), before);
        cache.clear();
        assert_eq!(cache.len(), 0);
    }
}
