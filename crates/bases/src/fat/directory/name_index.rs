//! Index of names: the slots of entries by hashes of their names in upper case.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::fat::format::upcased;

/// A name of an entry: its hash, and the slot of the entry.
type Item = (u64, u32);

/// Memory of an item of a set in bytes.
const SET_ITEM_MEMORY: usize = 2 * size_of::<Item>();

/// Slots by name. An entry may have several names, and on a damaged volume a name many entries.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    /// One slot of each hash.
    items: HashTable<Item>,
    /// Other slots: a table of hashes is slow with many of one hash.
    others: BTreeSet<Item>,
    hasher: RandomState,
}

impl NameIndex {
    /// Returns the slot of an entry with this name, which `has_name` confirms.
    pub(crate) fn find(&self, units: &[u16], has_name: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = self.hash(units);
        let (_, first) = *self.items.find(hash, |&(other, _)| other == hash)?;
        let mut slots = std::iter::once(first).chain(self.others_of(hash));
        slots.find(|&slot| has_name(slot))
    }

    /// Adds a name of an entry.
    pub(crate) fn insert(&mut self, units: &[u16], slot: u32) {
        let item = (self.hash(units), slot);
        match self.items.find(item.0, |other| other.0 == item.0) {
            None => drop(self.items.insert_unique(item.0, item, |&(hash, _)| hash)),
            Some(first) if *first == item => {}
            Some(_) => drop(self.others.insert(item)),
        }
    }

    /// Removes a name of an entry.
    pub(crate) fn remove(&mut self, units: &[u16], slot: u32) {
        let item = (self.hash(units), slot);
        let next = self.others_of(item.0).next();
        match self.items.find_mut(item.0, |other| *other == item) {
            None => drop(self.others.remove(&item)),
            Some(first) => match next.map(|slot| (item.0, slot)) {
                Some(next) => {
                    *first = next;
                    self.others.remove(&next);
                }
                None => {
                    if let Ok(found) = self.items.find_entry(item.0, |other| *other == item) {
                        found.remove();
                    }
                }
            },
        }
    }

    /// Returns the memory that the index takes, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        (self.items.capacity() * (size_of::<Item>() + 2) + self.others.len() * SET_ITEM_MEMORY) as u64
    }

    /// Returns the slots of a hash except for the one in the table, in order.
    fn others_of(&self, hash: u64) -> impl Iterator<Item = u32> {
        self.others.range((hash, 0)..=(hash, u32::MAX)).map(|&(_, slot)| slot)
    }

    fn hash(&self, units: &[u16]) -> u64 {
        self.hasher.hash_one(upcased(units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_regardless_of_case() {
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        let mut index = NameIndex::default();
        index.insert(&units("Über.txt"), 3);
        index.insert(&units("other"), 9);
        assert_eq!(index.find(&units("üBER.TXT"), |_| true), Some(3));
        assert_eq!(index.find(&units("üBER.TXT"), |slot| slot != 3), None);
        index.remove(&units("OTHER"), 8);
        assert_eq!(index.find(&units("Other"), |_| true), Some(9));
        index.remove(&units("OTHER"), 9);
        assert_eq!(index.find(&units("Other"), |_| true), None);
    }

    #[test]
    fn many_entries_may_have_one_name() {
        let start = std::time::Instant::now();
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        let mut index = NameIndex::default();
        let count = 1 << 16;
        (0..count).for_each(|slot| index.insert(&units("name"), slot));
        assert_eq!(index.find(&units("NAME"), |slot| slot == 7), Some(7));
        (0..count - 1).for_each(|slot| index.remove(&units("name"), slot));
        assert_eq!(index.find(&units("name"), |_| true), Some(count - 1));
        index.remove(&units("name"), count - 1);
        assert_eq!(index.find(&units("name"), |_| true), None);
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
