//! Known names: the names that the kernel may use without asking, so that they can be expired.
//!
//! The kernel is notified name by name, including names that no longer refer to anything, so each one is recorded here. A name
//! is recorded with the node for which it was handed out, and dropped with its directory, by the operation that removes it,
//! or, once a directory has twice as many names as before, with its node. There may be millions: the names of a directory are
//! stored contiguously, and a hash table of 12 bytes per name finds them there.
//!
//! **Invariant.** A reply that lets the kernel cache a name is either found here by whoever starts a new generation
//! afterwards, or requested too late ([`KnownNames::give`] returns `false`). So no reply based on an earlier state is missed.

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;
/// Number of names in a directory from which on names whose nodes are gone are swept.
const SWEEP_FIRST: usize = 256;
/// Number of bytes of removed names from which on the remaining ones are compacted.
const UNUSED_MIN: usize = 4096;

/// The state of the stack on which a reply is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// All names that the kernel may use without asking.
pub(crate) struct KnownNames {
    generation: AtomicU64,
    shards: Vec<Mutex<HashMap<u64, Directory>>>,
    hasher: DefaultHashBuilder,
}

/// The names of one directory.
pub(crate) struct Directory {
    table: HashTable<KnownName>,
    /// The names, each prefixed with its length.
    bytes: Vec<u8>,
    /// Number of bytes in it that belong to removed names.
    unused: usize,
    /// The kernel may have cached that some name does not exist. Such names are not recorded: there is no bound on their
    /// number.
    pub(crate) has_missing: bool,
    sweep_at: usize,
}

/// The location of a name, and the node to which it refers.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct KnownName {
    offset: u32,
    node: u64,
}

impl KnownName {
    fn name(self, bytes: &[u8]) -> &[u8] {
        let offset = self.offset as usize;
        &bytes[offset + 1..][..usize::from(bytes[offset])]
    }
}

impl Default for Directory {
    fn default() -> Directory {
        Directory { table: HashTable::new(), bytes: Vec::new(), unused: 0, has_missing: false, sweep_at: SWEEP_FIRST }
    }
}

impl Directory {
    /// Returns the names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter().map(|known| known.name(&self.bytes))
    }
}

impl KnownNames {
    pub(crate) fn new() -> KnownNames {
        KnownNames {
            generation: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the generation of every result that is obtained from now on.
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::SeqCst))
    }

    /// Starts a generation: names may refer to something else from now on, or may no longer be visible to everybody.
    pub(crate) fn start_generation(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns whether the kernel may cache a name that was found in this generation; if so, records it. `is_gone` returns
    /// whether the kernel has forgotten a node.
    pub(crate) fn give(
        &self,
        found_in: Generation,
        parent: u64,
        name: &[u8],
        node: u64,
        is_gone: impl Fn(u64) -> bool,
    ) -> bool {
        let mut shard = self.shard(parent);
        if self.generation() != found_in {
            return false;
        }
        shard.entry(parent).or_default().insert(&self.hasher, name, node, is_gone)
    }

    /// Returns whether the kernel may cache that a name in `parent` does not exist, as [`KnownNames::give`].
    pub(crate) fn give_missing(&self, found_in: Generation, parent: u64) -> bool {
        let mut shard = self.shard(parent);
        if self.generation() != found_in {
            return false;
        }
        shard.entry(parent).or_default().has_missing = true;
        true
    }

    /// Removes a name that the kernel has dropped.
    pub(crate) fn removed(&self, parent: u64, name: &[u8]) {
        if let Some(directory) = self.shard(parent).get_mut(&parent) {
            directory.remove(&self.hasher, name);
        }
    }

    /// Moves a name along with the kernel's dentry; with `swapped` the two names are exchanged.
    pub(crate) fn moved(&self, from: (u64, &[u8]), to: (u64, &[u8]), swapped: bool) {
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
    pub(crate) fn take(&self, directory: u64) -> Option<Directory> {
        self.shard(directory).remove(&directory)
    }

    /// Takes all names, as [`KnownNames::take`].
    pub(crate) fn take_all(&self) -> Vec<(u64, Directory)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(std::mem::take(&mut *lock(shard)));
        }
        all
    }

    fn shard(&self, directory: u64) -> MutexGuard<'_, HashMap<u64, Directory>> {
        lock(&self.shards[directory as usize % SHARDS])
    }
}

impl Directory {
    /// Inserts a name; returns whether there is room for it.
    fn insert(&mut self, hasher: &DefaultHashBuilder, name: &[u8], node: u64, is_gone: impl Fn(u64) -> bool) -> bool {
        let hash = hasher.hash_one(name);
        let Directory { table, bytes, .. } = self;
        if let Some(known) = table.find_mut(hash, |known| known.name(bytes) == name) {
            known.node = node;
            return true;
        }
        if self.table.len() >= self.sweep_at {
            self.table.retain(|known| !is_gone(known.node));
            self.sweep_at = SWEEP_FIRST.max(self.table.len() * 2);
            self.compact();
        }
        let (Ok(offset), Ok(length)) = (u32::try_from(self.bytes.len()), u8::try_from(name.len())) else {
            return false;
        };
        self.bytes.push(length);
        self.bytes.extend_from_slice(name);
        let Directory { table, bytes, .. } = self;
        table.insert_unique(hash, KnownName { offset, node }, |known| hasher.hash_one(known.name(bytes)));
        true
    }

    /// Removes a name; returns the node to which it referred.
    fn remove(&mut self, hasher: &DefaultHashBuilder, name: &[u8]) -> Option<u64> {
        let Directory { table, bytes, .. } = self;
        let found = table.find_entry(hasher.hash_one(name), |known| known.name(bytes) == name).ok()?;
        let node = found.remove().0.node;
        self.unused += 1 + name.len();
        if self.unused > UNUSED_MIN && self.unused > self.bytes.len() / 2 {
            self.compact();
        }
        Some(node)
    }

    /// Compacts the names that are still known.
    fn compact(&mut self) {
        let length = self.table.iter().map(|known| 1 + known.name(&self.bytes).len()).sum();
        let mut bytes = Vec::with_capacity(length);
        for known in &mut self.table {
            let name = known.name(&self.bytes);
            known.offset = bytes.len() as u32;
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name);
        }
        (self.bytes, self.unused) = (bytes, 0);
    }
}

fn lock(shard: &Mutex<HashMap<u64, Directory>>) -> MutexGuard<'_, HashMap<u64, Directory>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(names: &KnownNames, parent: u64, name: &[u8], node: u64) -> bool {
        names.give(names.generation(), parent, name, node, |_| false)
    }

    fn taken(names: &KnownNames, directory: u64) -> Vec<Vec<u8>> {
        let directory = names.take(directory).unwrap_or_default();
        let mut found: Vec<Vec<u8>> = directory.names().map(<[u8]>::to_vec).collect();
        found.sort();
        found
    }

    #[test]
    fn names_follow_what_the_kernel_does_with_them() {
        let names = KnownNames::new();
        for (name, node) in [(b"a", 10), (b"b", 11), (b"c", 12)] {
            assert!(give(&names, 1, name, node));
        }
        assert!(give(&names, 1, b"a", 10), "looked up again");
        names.removed(1, b"b");
        names.moved((1, b"a"), (2, b"x"), false);
        names.moved((1, b"c"), (2, b"x"), true);
        assert_eq!(taken(&names, 1), [b"c"]);
        assert_eq!(taken(&names, 2), [b"x"]);
        assert!(taken(&names, 1).is_empty(), "taken once");
    }

    #[test]
    fn what_was_found_before_a_new_generation_is_not_given_after_it() {
        let names = KnownNames::new();
        let before = names.generation();
        names.start_generation();
        assert!(!names.give(before, 1, b"a", 10, |_| false) && !names.give_missing(before, 1));
        assert!(names.take_all().is_empty());
        assert!(names.give_missing(names.generation(), 1));
        assert!(names.take(1).is_some_and(|directory| directory.has_missing));
    }

    #[test]
    fn names_are_small_and_those_that_are_gone_leave_no_room_behind() {
        assert_eq!(size_of::<KnownName>(), 12);
        let names = KnownNames::new();
        let name = |number: u64| format!("{number}");
        for number in 0..100_000u64 {
            assert!(give(&names, 1, name(number).as_bytes(), number));
            if number >= 1000 {
                names.removed(1, name(number - 1000).as_bytes());
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
    fn names_whose_nodes_are_gone_do_not_pile_up() {
        let names = KnownNames::new();
        for number in 0..100_000u64 {
            let is_gone = |node: u64| node + 10 < number;
            assert!(names.give(names.generation(), 1, &number.to_le_bytes(), number, is_gone));
        }
        assert!(taken(&names, 1).len() <= SWEEP_FIRST);
        assert!(give(&names, 2, b"name", 3));
        names.forget(2);
        assert!(names.take_all().is_empty());
    }
}
