//! Cached names: the names that the kernel may use without asking, so that they can be expired.
//!
//! The kernel is notified name by name, including names that no longer refer to anything, so each one is recorded here. A name
//! is recorded with the node for which it was handed out, and dropped with its directory, by the operation that removes it,
//! or, once a directory has twice as many names as before, with its node. There may be millions: the names of a directory are
//! stored contiguously, and a hash table of 12 bytes per name finds them there.
//!
//! **Invariant.** A reply that lets the kernel cache a name is either found here by whoever starts a new generation
//! afterwards, or requested too late ([`CachedNames::record`] returns `false`). So no reply based on an earlier state
//! is missed.

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vnode::Sharded;

const SHARDS: usize = 64;
/// Number of names in a directory from which on names of forgotten nodes are swept.
const SWEEP_THRESHOLD_MIN: usize = 256;
/// Number of bytes of removed names from which on the remaining ones are compacted.
const COMPACTION_THRESHOLD_BYTES: usize = 4096;

/// The state of the stack on which a reply is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// All names that the kernel may use without asking.
pub(crate) struct CachedNames {
    generation: AtomicU64,
    shards: Sharded<Mutex<HashMap<u64, DirectoryNames>>, SHARDS>,
    hasher: DefaultHashBuilder,
}

/// The names of one directory.
pub(crate) struct DirectoryNames {
    table: HashTable<CachedName>,
    /// The names, each prefixed with its length.
    bytes: Vec<u8>,
    /// Number of bytes in it that belong to removed names.
    unused: usize,
    /// The kernel may have cached that some name does not exist. Such names are not recorded: there is no bound on their
    /// number.
    pub(crate) has_negative_entries: bool,
    sweep_at: usize,
}

/// The location of a name, and the node to which it refers.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct CachedName {
    offset: u32,
    node: u64,
}

impl CachedName {
    fn name(self, bytes: &[u8]) -> &[u8] {
        let offset = self.offset as usize;
        &bytes[offset + 1..][..usize::from(bytes[offset])]
    }
}

impl Default for DirectoryNames {
    fn default() -> DirectoryNames {
        DirectoryNames {
            table: HashTable::new(),
            bytes: Vec::new(),
            unused: 0,
            has_negative_entries: false,
            sweep_at: SWEEP_THRESHOLD_MIN,
        }
    }
}

impl DirectoryNames {
    /// Returns the names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter().map(|cached| cached.name(&self.bytes))
    }
}

impl CachedNames {
    pub(crate) fn new() -> CachedNames {
        CachedNames { generation: AtomicU64::new(0), shards: Sharded::default(), hasher: DefaultHashBuilder::default() }
    }

    /// Returns the generation of every result that is obtained from now on.
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::SeqCst))
    }

    /// Starts a generation: names may refer to something else from now on, or may no longer be visible to everybody.
    pub(crate) fn start_generation(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns whether the kernel may cache a name that was found in this generation; if so, records it. `is_forgotten`
    /// returns whether the kernel has forgotten a node.
    pub(crate) fn record(
        &self,
        generation: Generation,
        parent: u64,
        name: &[u8],
        node: u64,
        is_forgotten: impl Fn(u64) -> bool,
    ) -> bool {
        let mut shard = self.shard(parent);
        if self.generation() != generation {
            return false;
        }
        shard.entry(parent).or_default().insert(&self.hasher, name, node, is_forgotten)
    }

    /// Returns whether the kernel may cache that a name in `parent` does not exist, as [`CachedNames::record`].
    pub(crate) fn record_missing(&self, generation: Generation, parent: u64) -> bool {
        let mut shard = self.shard(parent);
        if self.generation() != generation {
            return false;
        }
        shard.entry(parent).or_default().has_negative_entries = true;
        true
    }

    /// Removes a name that the kernel has dropped.
    pub(crate) fn remove(&self, parent: u64, name: &[u8]) {
        if let Some(directory) = self.shard(parent).get_mut(&parent) {
            directory.remove(&self.hasher, name);
        }
    }

    /// Moves a name along with the kernel's dentry; with `swapped` the two names are exchanged.
    pub(crate) fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), swapped: bool) {
        let take = |(parent, name): (u64, &[u8])| {
            let mut shard = self.shard(parent);
            shard.get_mut(&parent)?.remove(&self.hasher, name)
        };
        let put = |(parent, name): (u64, &[u8]), node: Option<u64>| {
            let Some(node) = node else { return };
            self.shard(parent).entry(parent).or_default().insert(&self.hasher, name, node, |_| false);
        };
        let (moved, replaced) = (take(from), take(to));
        put(to, moved);
        put(from, replaced.filter(|_| swapped));
    }

    /// Removes a directory that the kernel has forgotten, after all names in it.
    pub(crate) fn forget(&self, directory: u64) {
        self.shard(directory).remove(&directory);
    }

    /// Takes the names of a directory, to notify the kernel of them.
    pub(crate) fn take(&self, directory: u64) -> Option<DirectoryNames> {
        self.shard(directory).remove(&directory)
    }

    /// Takes all names, as [`CachedNames::take`].
    pub(crate) fn take_all(&self) -> Vec<(u64, DirectoryNames)> {
        let mut all = Vec::new();
        for shard in self.shards.iter() {
            all.extend(std::mem::take(&mut *lock(shard)));
        }
        all
    }

    fn shard(&self, directory: u64) -> MutexGuard<'_, HashMap<u64, DirectoryNames>> {
        lock(self.shards.of_number(directory))
    }
}

impl DirectoryNames {
    /// Inserts a name; returns whether there is room for it.
    fn insert(
        &mut self,
        hasher: &DefaultHashBuilder,
        name: &[u8],
        node: u64,
        is_forgotten: impl Fn(u64) -> bool,
    ) -> bool {
        let hash = hasher.hash_one(name);
        let DirectoryNames { table, bytes, .. } = self;
        if let Some(cached) = table.find_mut(hash, |cached| cached.name(bytes) == name) {
            cached.node = node;
            return true;
        }
        if self.table.len() >= self.sweep_at {
            self.table.retain(|cached| !is_forgotten(cached.node));
            self.sweep_at = SWEEP_THRESHOLD_MIN.max(self.table.len() * 2);
            self.compact();
        }
        let (Ok(offset), Ok(length)) = (u32::try_from(self.bytes.len()), u8::try_from(name.len())) else {
            return false;
        };
        self.bytes.push(length);
        self.bytes.extend_from_slice(name);
        let DirectoryNames { table, bytes, .. } = self;
        table.insert_unique(hash, CachedName { offset, node }, |cached| hasher.hash_one(cached.name(bytes)));
        true
    }

    /// Removes a name; returns the node to which it referred.
    fn remove(&mut self, hasher: &DefaultHashBuilder, name: &[u8]) -> Option<u64> {
        let DirectoryNames { table, bytes, .. } = self;
        let found = table.find_entry(hasher.hash_one(name), |cached| cached.name(bytes) == name).ok()?;
        let node = found.remove().0.node;
        self.unused += 1 + name.len();
        if self.unused > COMPACTION_THRESHOLD_BYTES && self.unused > self.bytes.len() / 2 {
            self.compact();
        }
        Some(node)
    }

    /// Compacts the names that are still recorded.
    fn compact(&mut self) {
        let length = self.table.iter().map(|cached| 1 + cached.name(&self.bytes).len()).sum();
        let mut bytes = Vec::with_capacity(length);
        for cached in &mut self.table {
            let name = cached.name(&self.bytes);
            cached.offset = bytes.len() as u32;
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name);
        }
        (self.bytes, self.unused) = (bytes, 0);
    }
}

fn lock(shard: &Mutex<HashMap<u64, DirectoryNames>>) -> MutexGuard<'_, HashMap<u64, DirectoryNames>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(names: &CachedNames, parent: u64, name: &[u8], node: u64) -> bool {
        names.record(names.generation(), parent, name, node, |_| false)
    }

    fn taken(names: &CachedNames, directory: u64) -> Vec<Vec<u8>> {
        let directory = names.take(directory).unwrap_or_default();
        let mut found: Vec<Vec<u8>> = directory.names().map(<[u8]>::to_vec).collect();
        found.sort();
        found
    }

    #[test]
    fn recorded_names_follow_removals_and_renames() {
        let names = CachedNames::new();
        for (name, node) in [(b"a", 10), (b"b", 11), (b"c", 12)] {
            assert!(record(&names, 1, name, node));
        }
        assert!(record(&names, 1, b"a", 10), "looked up again");
        names.remove(1, b"b");
        names.rename((1, b"a"), (2, b"x"), false);
        names.rename((1, b"c"), (2, b"x"), true);
        assert_eq!(taken(&names, 1), [b"c"]);
        assert_eq!(taken(&names, 2), [b"x"]);
        assert!(taken(&names, 1).is_empty(), "taken once");
    }

    #[test]
    fn result_of_an_earlier_generation_is_not_recorded() {
        let names = CachedNames::new();
        let before = names.generation();
        names.start_generation();
        assert!(!names.record(before, 1, b"a", 10, |_| false) && !names.record_missing(before, 1));
        assert!(names.take_all().is_empty());
        assert!(names.record_missing(names.generation(), 1));
        assert!(names.take(1).is_some_and(|directory| directory.has_negative_entries));
    }

    #[test]
    fn names_are_compact_and_removed_ones_are_reclaimed() {
        assert_eq!(size_of::<CachedName>(), 12);
        let names = CachedNames::new();
        let name = |number: u64| format!("{number}");
        for number in 0..100_000u64 {
            assert!(record(&names, 1, name(number).as_bytes(), number));
            if number >= 1000 {
                names.remove(1, name(number - 1000).as_bytes());
            }
        }
        let directory = names.take(1).unwrap();
        assert!(directory.bytes.len() < 4 * 7 * 1000, "{}", directory.bytes.len());
        let mut left: Vec<Vec<u8>> = directory.names().map(<[u8]>::to_vec).collect();
        left.sort();
        let mut expected: Vec<Vec<u8>> = (99_000..100_000).map(|number| name(number).into_bytes()).collect();
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn names_of_forgotten_nodes_are_swept() {
        let names = CachedNames::new();
        for number in 0..100_000u64 {
            let is_forgotten = |node: u64| node + 10 < number;
            assert!(names.record(names.generation(), 1, &number.to_le_bytes(), number, is_forgotten));
        }
        assert!(taken(&names, 1).len() <= SWEEP_THRESHOLD_MIN);
        assert!(record(&names, 2, b"name", 3));
        names.forget(2);
        assert!(names.take_all().is_empty());
    }
}
