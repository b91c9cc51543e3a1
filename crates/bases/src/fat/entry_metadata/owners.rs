//! Owners by number: hidden empty files in the root directory whose names have a user or group ID and its number.

use std::collections::{HashMap, HashSet};

use crate::fat::format::{Entry, EntryAttributes, ShortName};

/// Number of users, and of groups.
pub(crate) const OWNERS_MAX: u32 = 1024;

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHIJKLMNOPQRSTUV";
const USER: u8 = b'U';
const GROUP: u8 = b'G';

/// An entry of the root directory that gives an ID its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerEntry {
    pub(crate) is_group: bool,
    pub(crate) number: u32,
    pub(crate) id: u32,
}

/// IDs of one kind, and their numbers.
#[derive(Debug, Default)]
struct Ids {
    numbers: HashMap<u32, u32>,
    ids: HashMap<u32, u32>,
    /// Numbers that entries have, and no ID: whoever got one would own what is another's.
    unknown: HashSet<u32>,
}

/// The IDs of users and groups, and their numbers.
#[derive(Debug, Default)]
pub(crate) struct OwnerTable {
    users: Box<Ids>,
    groups: Box<Ids>,
}

impl OwnerTable {
    fn of(&self, is_group: bool) -> &Ids {
        if is_group { &self.groups } else { &self.users }
    }

    /// Adds an ID. Of several with one number, and of several numbers of one ID, the first counts.
    pub(crate) fn add(&mut self, is_group: bool, number: u32, id: u32) {
        let ids = if is_group { &mut self.groups } else { &mut self.users };
        if number < OWNERS_MAX && !ids.ids.contains_key(&number) {
            ids.ids.insert(number, id);
            ids.numbers.entry(id).or_insert(number);
        }
    }

    /// Returns the entry that an ID needs and has not; `None` if it has one.
    pub(crate) fn missing(&self, is_group: bool, id: u32) -> Option<Option<OwnerEntry>> {
        let ids = self.of(is_group);
        if ids.numbers.contains_key(&id) {
            return None;
        }
        // Numbers below others are free only because somebody has removed their IDs; they are used last.
        let next = ids.ids.keys().max().map_or(0, |last| last + 1);
        let is_free = |number: &u32| !ids.ids.contains_key(number) && !ids.unknown.contains(number);
        let free = (next..OWNERS_MAX).chain(0..next).find(is_free);
        Some(free.map(|number| OwnerEntry { is_group, number, id }))
    }

    /// Returns the numbers of a user and a group, if both have one.
    pub(crate) fn numbers(&self, uid: u32, gid: u32) -> Option<(u32, u32)> {
        Some((*self.users.numbers.get(&uid)?, *self.groups.numbers.get(&gid)?))
    }

    /// Returns the user and the group with these numbers, which an entry has. One without an ID is given to nobody from here on.
    pub(crate) fn ids(&mut self, user: u32, group: u32) -> Option<(u32, u32)> {
        let mut id = |is_group: bool, number: u32| {
            let ids = if is_group { &mut self.groups } else { &mut self.users };
            let id = ids.ids.get(&number).copied();
            if id.is_none() {
                ids.unknown.insert(number);
            }
            id
        };
        let (user, group) = (id(false, user), id(true, group));
        user.zip(group)
    }

    /// Returns whether no ID has a number.
    pub(crate) fn is_empty(&self) -> bool {
        self.users.ids.is_empty() && self.groups.ids.is_empty()
    }
}

impl OwnerEntry {
    /// Returns what an entry of the root directory stands for; `None` for any other file.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let own = EntryAttributes::HIDDEN | EntryAttributes::SYSTEM;
        let is_own = entry.attributes.contains(own) && !entry.is_directory() && entry.size == 0;
        Self::of_name(&entry.name).filter(|_| is_own)
    }

    /// Returns what a name stands for.
    pub(crate) fn of_name(name: &ShortName) -> Option<Self> {
        let (id, extension) = name.0.split_first_chunk::<8>()?;
        let [kind, high, low] = extension else { return None };
        let is_upper_hexadecimal = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
        let id = str::from_utf8(id).ok().filter(|_| id.iter().all(is_upper_hexadecimal))?;
        let digit = |byte: &u8| DIGITS.iter().position(|digit| digit == byte);
        let number = digit(high)? * DIGITS.len() + digit(low)?;
        let is_group = match *kind {
            USER => false,
            GROUP => true,
            _ => return None,
        };
        Some(Self { is_group, number: number as u32, id: u32::from_str_radix(id, 16).ok()? })
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> ShortName {
        let digit = |number: u32| DIGITS[number as usize % DIGITS.len()];
        let mut name = [0; 11];
        name[..8].copy_from_slice(format!("{:08X}", self.id).as_bytes());
        name[8] = if self.is_group { GROUP } else { USER };
        (name[9], name[10]) = (digit(self.number / 32), digit(self.number));
        ShortName(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_ids_and_numbers() {
        let entry = OwnerEntry { is_group: false, number: 0, id: 1000 };
        assert_eq!(&entry.name().0, b"000003E8U00");
        let last = OwnerEntry { is_group: true, number: 1023, id: u32::MAX - 1 };
        assert_eq!(&last.name().0, b"FFFFFFFEGVV");
        assert_eq!([entry, last].map(|entry| OwnerEntry::of_name(&entry.name())), [Some(entry), Some(last)]);
        for name in [b"000003e8U00", b"000003E8X00", b"000003E8UZ0", b"README  TXT"] {
            assert_eq!(OwnerEntry::of_name(&ShortName(*name)), None);
        }
    }

    #[test]
    fn the_first_of_several_counts() {
        let mut table = OwnerTable::default();
        table.add(false, 3, 7);
        table.add(false, 3, 8);
        table.add(false, 4, 7);
        table.add(true, 0, 9);
        assert_eq!((table.numbers(7, 9), table.ids(3, 0), table.ids(4, 0)), (Some((3, 0)), Some((7, 9)), Some((7, 9))));
        assert_eq!((table.numbers(8, 9), table.missing(false, 7)), (None, None));
        assert_eq!(table.missing(true, 1), Some(Some(OwnerEntry { is_group: true, number: 1, id: 1 })));
    }

    #[test]
    fn numbers_that_entries_have_are_given_to_nobody_else() {
        let mut table = OwnerTable::default();
        table.add(false, 0, 10);
        table.add(false, 2, 12);
        table.add(true, 0, 10);
        let number = |table: &OwnerTable| table.missing(false, 99).flatten().map(|owner| owner.number);
        assert_eq!(number(&table), Some(3));
        assert_eq!((table.ids(3, 0), number(&table)), (None, Some(4)));
    }
}
