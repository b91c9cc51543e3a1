//! Hard links as directories have them: the store of objects with several names, and the entries that stand for these names.
//!
//! FAT has one entry for each chain. So the entry of an object with several names is in a hidden directory, the store, and each of its
//! names is an entry without data that has the object's number as its time of creation. A third entry, in the store, counts the names.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::entry_metadata::time_number::{number_of_time, time_of_number};
use super::format::{CaseBits, Entry, EntryAttributes, FatWidth, ShortName};

/// Name of the store in the root directory.
pub(crate) const STORE_NAME: ShortName = ShortName(*b"PLYFS   LNK");

/// Attributes of the store beside that of a directory.
pub(crate) const STORE_ATTRIBUTES: EntryAttributes =
    EntryAttributes(EntryAttributes::HIDDEN.0 | EntryAttributes::SYSTEM.0);

/// Maximum number of names of an object.
pub(crate) const NAMES_MAX: u32 = 65_000;

/// Attributes of a name. The first is what tells it from an empty file; the second keeps other systems from writing to it.
const NAME_ATTRIBUTES: EntryAttributes = EntryAttributes(EntryAttributes::SYSTEM.0 | EntryAttributes::READ_ONLY.0);

/// Number of an object in the store. It is random, so that a name whose object is gone does not become that of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkNumber(pub(crate) u32);

impl LinkNumber {
    /// Returns a random number.
    pub(crate) fn random() -> Self {
        Self(RandomState::new().build_hasher().finish() as u32)
    }

    /// Returns the name of the object in the store.
    pub(crate) fn object_name(self) -> ShortName {
        self.short_name(b"DAT")
    }

    /// Returns the name of the entry in the store that counts the names.
    pub(crate) fn count_name(self) -> ShortName {
        self.short_name(b"CNT")
    }

    fn short_name(self, extension: &[u8; 3]) -> ShortName {
        let mut name = [0; 11];
        name[..8].copy_from_slice(format!("{:08X}", self.0).as_bytes());
        name[8..].copy_from_slice(extension);
        ShortName(name)
    }

    /// Returns the number of an object with this name in the store.
    pub(crate) fn of_object(name: &ShortName) -> Option<Self> {
        let digits = str::from_utf8(name.0.first_chunk::<8>()?).ok()?;
        let number = u32::from_str_radix(digits, 16).ok().map(Self)?;
        (number.object_name() == *name).then_some(number)
    }

    /// Returns the number of the object that an entry outside of the store is a name of; `None` for an object of its own. One that
    /// another system has written to is a file of its own.
    pub(crate) fn of_name(entry: &Entry, width: FatWidth) -> Option<Self> {
        let is_name = !entry.is_directory()
            && entry.attributes.contains(EntryAttributes::SYSTEM)
            && entry.size == 0
            && entry.first_cluster(width) == 0;
        let number = if is_name { number_of_time(entry.created)? } else { return None };
        u32::try_from(number).ok().map(Self)
    }

    /// Makes an entry a name of the object. Its times stay.
    pub(crate) fn store(self, entry: &mut Entry, width: FatWidth) {
        entry.attributes = NAME_ATTRIBUTES;
        entry.created = time_of_number(self.0.into());
        entry.set_first_cluster(width, 0);
        entry.size = 0;
    }

    /// Returns the entry that has the number of names, and the other times of the object's.
    pub(crate) fn count_entry(self, names: u32, object: &Entry) -> Entry {
        let attributes = STORE_ATTRIBUTES | EntryAttributes::READ_ONLY;
        let mut entry = Entry::new(self.count_name(), attributes);
        (entry.accessed_date, entry.modified) = (object.accessed_date, object.modified);
        set_names(&mut entry, names);
        entry
    }

    /// Returns the entry of the object in the store, which is `entry` elsewhere.
    pub(crate) fn object_entry(self, entry: &Entry) -> Entry {
        Entry { name: self.object_name(), case: CaseBits::default(), ..*entry }
    }
}

/// Returns the number of names that an entry of the store says; `None` if it says nothing, or an impossible number.
pub(crate) fn names_of(entry: &Entry) -> Option<u32> {
    let names = number_of_time(entry.created).and_then(|number| u32::try_from(number).ok());
    names.filter(|names| (1..=NAMES_MAX).contains(names))
}

/// Sets the number of names in an entry of the store.
pub(crate) fn set_names(entry: &mut Entry, names: u32) {
    entry.created = time_of_number(names.into());
}

/// Returns the number of the object of an entry of the store; `None` for what is no object there.
pub(crate) fn object_number(entry: &Entry) -> Option<LinkNumber> {
    LinkNumber::of_object(&entry.name).filter(|_| !entry.is_directory())
}

/// Returns whether an entry of the root directory is the store.
pub(crate) fn is_store(entry: &Entry) -> bool {
    entry.name == STORE_NAME && entry.is_directory() && entry.attributes.contains(STORE_ATTRIBUTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fat::format::DosDateTime;

    fn name_entry(number: u32) -> Entry {
        let mut entry = Entry::new(ShortName(*b"FILE       "), EntryAttributes::ARCHIVE);
        (entry.size, entry.cluster_low) = (100, 7);
        LinkNumber(number).store(&mut entry, FatWidth::Fat16);
        entry
    }

    #[test]
    fn names_have_the_number_of_their_object() {
        for number in [0, 1, 0x89AB_CDEF, u32::MAX] {
            assert_eq!(LinkNumber::of_name(&name_entry(number), FatWidth::Fat16), Some(LinkNumber(number)));
            assert_eq!(LinkNumber::of_object(&LinkNumber(number).object_name()), Some(LinkNumber(number)));
            assert_eq!(LinkNumber::of_object(&LinkNumber(number).count_name()), None);
        }
        for name in [b"000003e8DAT", b"+00003E8DAT", b"PLYFS   ATR"] {
            assert_eq!(LinkNumber::of_object(&ShortName(*name)), None);
        }
    }

    #[test]
    fn what_another_system_wrote_to_or_made_is_no_name() {
        let width = FatWidth::Fat16;
        let entry = name_entry(5);
        let archived = Entry { attributes: EntryAttributes::SYSTEM | EntryAttributes::ARCHIVE, ..entry };
        assert_eq!(LinkNumber::of_name(&archived, width), Some(LinkNumber(5)), "renamed by Windows");
        let others = [
            Entry { size: 1, ..entry },
            Entry { cluster_low: 9, ..entry },
            Entry { attributes: EntryAttributes::ARCHIVE, ..entry },
            Entry { created: DosDateTime::default(), ..entry },
            Entry { created: time_of_number(1 << 32), ..entry },
            Entry { attributes: entry.attributes | EntryAttributes::DIRECTORY, ..entry },
        ];
        assert_eq!(others.map(|entry| LinkNumber::of_name(&entry, width)), [None; 6]);
    }

    #[test]
    fn impossible_numbers_of_names_are_unknown() {
        let count = |names| names_of(&LinkNumber(1).count_entry(names, &name_entry(1)));
        assert_eq!([1, 2, NAMES_MAX].map(count), [Some(1), Some(2), Some(NAMES_MAX)]);
        assert_eq!([0, NAMES_MAX + 1, u32::MAX].map(count), [None; 3]);
        assert_eq!(names_of(&Entry { created: DosDateTime::default(), ..name_entry(1) }), None);
    }

    #[test]
    fn the_example_of_the_format_is_right() {
        let entry = name_entry(0x89AB_CDEF);
        assert_eq!((entry.created.hundredths, entry.created.time, entry.created.date), EXAMPLE);
    }

    /// Hundredths, time and date of the number 89AB CDEF.
    const EXAMPLE: (u8, u16, u16) = (0xA7, 0x3F09, 0xEF50);
}
