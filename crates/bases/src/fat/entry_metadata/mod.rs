//! Unix metadata in directory entries, without files of its own: `meta=inline` and `meta=paper`.

pub(crate) mod fields;
pub(crate) mod inline;
pub(crate) mod owners;
pub(crate) mod paper;
pub(crate) mod time_number;

use std::sync::{Mutex, MutexGuard, PoisonError};

use vnode::{Device, FileKind};

use crate::fat::format::{Entry, EntryAttributes};

use fields::UnixFields;
use owners::OwnerTable;

/// Mode bits by which a file acts for its owner or group.
const SET_ID_BITS: u32 = libc::S_ISUID | libc::S_ISGID;

/// How the entries of a volume have Unix metadata.
#[derive(Debug)]
pub(crate) enum EntryMetadata {
    /// Not at all.
    None,
    /// In the time of creation, with owners and groups by number.
    Inline(Mutex<OwnerTable>),
    /// In ten bytes.
    Paper,
}

impl EntryMetadata {
    /// Returns whether entries have metadata.
    pub(crate) fn is_used(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns whether entries have no date of the last access.
    pub(crate) fn replaces_access_date(&self) -> bool {
        matches!(self, Self::Paper)
    }

    /// Returns the table of owners, if the entries refer to one.
    pub(crate) fn owners(&self) -> Option<MutexGuard<'_, OwnerTable>> {
        match self {
            Self::Inline(owners) => Some(owners.lock().unwrap_or_else(PoisonError::into_inner)),
            _ => None,
        }
    }

    /// Returns the size of the data of a device node in bytes.
    pub(crate) fn device_size(&self) -> u32 {
        if matches!(self, Self::Inline(_)) { inline::DEVICE_SIZE as u32 } else { 0 }
    }

    /// Returns whether an entry can have this owner, group and device number.
    pub(crate) fn can_store(&self, uid: u32, gid: u32, device: Device) -> bool {
        match self {
            Self::None => false,
            Self::Inline(_) => self.owners().is_some_and(|owners| owners.numbers(uid, gid).is_some()),
            Self::Paper => paper::can_store(uid, gid, device),
        }
    }

    /// Returns what an entry says; `None` if it says nothing. A file that another system has written to, which marks it for the next
    /// backup, does not act for its owner.
    pub(crate) fn decode(&self, entry: &Entry) -> Option<UnixFields> {
        let mut fields = match self {
            Self::None => None,
            Self::Inline(_) => inline::decode(entry.created, &*self.owners()?),
            Self::Paper => paper::decode(entry),
        }?;
        if entry.is_directory() {
            fields.kind = FileKind::Directory;
        } else if entry.attributes.contains(EntryAttributes::ARCHIVE) {
            fields.mode &= !SET_ID_BITS;
        }
        Some(fields)
    }

    /// Stores fields in an entry, which [`EntryMetadata::can_store`].
    pub(crate) fn encode(&self, entry: &mut Entry, fields: &UnixFields) {
        match self {
            Self::None => return,
            Self::Inline(_) => {
                let owners = self.owners();
                let numbers = owners.and_then(|owners| owners.numbers(fields.uid, fields.gid));
                entry.created = numbers.map(|numbers| inline::encode(fields, numbers)).unwrap_or_default();
            }
            Self::Paper => paper::encode(entry, fields),
        }
        if !entry.is_directory() && fields.mode & SET_ID_BITS != 0 {
            entry.attributes = entry.attributes.with(EntryAttributes::ARCHIVE, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fat::format::ShortName;

    fn fields(mode: u32) -> UnixFields {
        UnixFields { kind: FileKind::Regular, mode, uid: 0, gid: 0, device: Device::default() }
    }

    #[test]
    fn set_id_bits_count_until_another_system_marks_the_file_as_changed() {
        let mut owners = OwnerTable::default();
        owners.add(false, 0, 0);
        owners.add(true, 0, 0);
        for metadata in [EntryMetadata::Inline(Mutex::new(owners)), EntryMetadata::Paper] {
            let mut entry = Entry::new(ShortName(*b"FILE       "), EntryAttributes::ARCHIVE);
            metadata.encode(&mut entry, &fields(0o4755));
            assert!(!entry.attributes.contains(EntryAttributes::ARCHIVE));
            assert_eq!(metadata.decode(&entry), Some(fields(0o4755)));
            entry.attributes |= EntryAttributes::ARCHIVE;
            assert_eq!(metadata.decode(&entry), Some(fields(0o755)));
        }
    }
}
