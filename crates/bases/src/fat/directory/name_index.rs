//! Index of names: the slots of entries by hashes of their names in upper case.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::fat::format::upcased;

/// A name of an entry: its hash, and the slot of the entry.
type Item = (u64, u32);

/// Slots by name. An entry may have several names.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    items: HashTable<Item>,
    hasher: RandomState,
}

impl NameIndex {
    /// Returns the slot of an entry with this name, which `has_name` confirms.
    pub(crate) fn find(&self, units: &[u16], has_name: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = self.hash(units);
        self.items.find(hash, |&(other, slot)| other == hash && has_name(slot)).map(|&(_, slot)| slot)
    }

    /// Adds a name of an entry.
    pub(crate) fn insert(&mut self, units: &[u16], slot: u32) {
        let item = (self.hash(units), slot);
        if self.items.find(item.0, |other| *other == item).is_none() {
            self.items.insert_unique(item.0, item, |&(hash, _)| hash);
        }
    }

    /// Removes a name of an entry.
    pub(crate) fn remove(&mut self, units: &[u16], slot: u32) {
        let item = (self.hash(units), slot);
        if let Ok(found) = self.items.find_entry(item.0, |other| *other == item) {
            found.remove();
        }
    }

    /// Returns the memory that the index takes, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        (self.items.capacity() * (size_of::<Item>() + 2)) as u64
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
}
