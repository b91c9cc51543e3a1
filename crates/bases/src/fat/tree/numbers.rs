//! Inode numbers: the first cluster of an object, and for one without clusters the place of its entry, unless it had another number
//! before.

use std::collections::{HashMap, HashSet};

use vnode::InodeNumber;

/// The inode number of the root directory.
pub(crate) const ROOT_NUMBER: InodeNumber = InodeNumber::new(1);

/// Numbers from here on are those of places.
const PLACES: u64 = 1 << 32;
/// Numbers from here on are given to objects that cannot have another.
const OTHERS: u64 = 1 << 56;
/// Bits of a slot in the number of a place.
const SLOT_BITS: u32 = 17;

/// EntryLocation of an entry: the first cluster of its directory, 0 for a root directory outside of the clusters, and its slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EntryLocation {
    pub(crate) directory: u32,
    pub(crate) slot: u32,
}

impl EntryLocation {
    /// Returns the number that the object of an entry in this place has by default.
    pub(crate) fn default_number(self, first_cluster: u32) -> InodeNumber {
        InodeNumber::new(match first_cluster {
            0 => PLACES + (u64::from(self.directory) << SLOT_BITS) + u64::from(self.slot),
            cluster => cluster.into(),
        })
    }
}

/// Returns the cluster that a number stands for; `None` if it is not that of a cluster.
pub(crate) fn cluster_of(number: InodeNumber) -> Option<u32> {
    u32::try_from(number.get()).ok().filter(|&cluster| cluster >= 2)
}

/// Numbers of objects whose entries do not tell them.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The number of an object by the one that its entry has by default.
    exceptions: HashMap<InodeNumber, InodeNumber>,
    /// The numbers that occur in `exceptions`.
    taken: HashSet<InodeNumber>,
    others: u64,
}

impl Numbers {
    /// Returns the number of an object whose entry has this number by default.
    pub(crate) fn number(&self, default: InodeNumber) -> InodeNumber {
        self.exceptions.get(&default).copied().unwrap_or(default)
    }

    /// Notes that the entry of an object with a number has another default, or no longer exists.
    pub(crate) fn rebind(&mut self, number: InodeNumber, before: Option<InodeNumber>, after: Option<InodeNumber>) {
        if before == after {
            return;
        }
        if let Some(before) = before
            && self.exceptions.get(&before) == Some(&number)
        {
            self.exceptions.remove(&before);
            self.taken.remove(&number);
        }
        if let Some(after) = after
            && after != number
        {
            self.exceptions.insert(after, number);
            self.taken.insert(number);
        }
    }

    /// Returns whether an object has this number that is not the default of its entry.
    pub(crate) fn is_taken(&self, number: InodeNumber) -> bool {
        self.taken.contains(&number)
    }

    /// Returns a number that no object has by default.
    pub(crate) fn other(&mut self) -> InodeNumber {
        self.others += 1;
        InodeNumber::new(OTHERS + self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_number_when_its_entry_changes() {
        let mut numbers = Numbers::default();
        let number = InodeNumber::new(7);
        let places = [3, 4].map(|slot| EntryLocation { directory: 5, slot }.default_number(0));
        numbers.rebind(number, None, Some(places[0]));
        assert_eq!((numbers.number(places[0]), numbers.is_taken(number)), (number, true));
        numbers.rebind(number, Some(places[0]), Some(places[1]));
        assert_eq!((numbers.number(places[0]), numbers.number(places[1])), (places[0], number));
        numbers.rebind(number, Some(places[1]), Some(number));
        assert_eq!((numbers.number(places[1]), numbers.is_taken(number)), (places[1], false));
        assert_eq!(cluster_of(numbers.other()), None);
    }
}
