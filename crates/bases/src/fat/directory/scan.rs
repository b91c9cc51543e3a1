//! Scan of a directory: which entries its slots make up.

use crate::fat::format::{ENTRY_SIZE, Entry, EntrySlot, LongNameReader};
use crate::fat::names::finish_long_name;

/// An entry of a directory and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScannedEntry {
    /// First slot of the long name, or that of the entry.
    pub(crate) first: u32,
    /// Slot of the entry.
    pub(crate) slot: u32,
    pub(crate) entry: Entry,
    /// Code units of the long name, if there is a valid one.
    pub(crate) long_name: Option<Vec<u16>>,
}

/// Calls `sink` for all files and directories in these slots, which begin with the slot number `first`, except for `.` and `..`.
pub(crate) fn scan(slots: &[[u8; ENTRY_SIZE]], first: u32, sink: &mut dyn FnMut(ScannedEntry)) {
    let mut reader = LongNameReader::default();
    for (slot, bytes) in (first..).zip(slots) {
        match EntrySlot::decode(bytes) {
            EntrySlot::End => break,
            EntrySlot::LongName(part) => drop(reader.push(&part)),
            EntrySlot::Deleted | EntrySlot::Label(_) => drop(reader.clear()),
            EntrySlot::Entry(entry) => {
                let length = reader.len() as u32;
                let long_name = finish_long_name(&mut reader, &entry);
                let first = if long_name.is_some() { slot - length } else { slot };
                if !entry.name.is_dots() {
                    sink(ScannedEntry { first, slot, entry, long_name });
                }
            }
        }
    }
}
