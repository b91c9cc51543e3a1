//! Directory entries: 32 bytes with name, attributes, times, first cluster and size.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::attributes::EntryAttributes;
use super::long_name::LongNameSlot;
use super::short_name::{CaseBits, ShortName};
use super::time::DosDateTime;
use super::width::FatWidth;

/// Size of an entry in bytes.
pub const ENTRY_SIZE: usize = 32;

/// First byte of the entry after the last one.
const END: u8 = 0;
/// First byte of an entry that was deleted.
const DELETED: u8 = 0xE5;

/// An entry as it is stored.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    name: [u8; 11],
    attributes: u8,
    case: u8,
    created_hundredths: u8,
    created_time: U16,
    created_date: U16,
    accessed_date: U16,
    cluster_high: U16,
    modified_time: U16,
    modified_date: U16,
    cluster_low: U16,
    size: U32,
}

const _: () = assert!(size_of::<RawEntry>() == ENTRY_SIZE);

/// The entry of a file, a directory or the label, with all fields as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Short name, or the label.
    pub name: ShortName,
    /// Attributes.
    pub attributes: EntryAttributes,
    /// Bits by which the short name is shown in lower case, among others.
    pub case: CaseBits,
    /// Time of the creation; all fields are 0 if not stored.
    pub created: DosDateTime,
    /// Date of the last access; 0 if not stored.
    pub accessed_date: u16,
    /// High half of the number of the first cluster on FAT32; other widths have other things here.
    pub cluster_high: u16,
    /// Time of the last modification, without hundredths.
    pub modified: DosDateTime,
    /// Low half of the number of the first cluster.
    pub cluster_low: u16,
    /// Size in bytes; 0 of a directory.
    pub size: u32,
}

/// What the 32 bytes of a directory at one position are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntrySlot {
    /// The end of the directory: this and all that follow are free, whatever they contain.
    End,
    /// Free, after a deletion.
    Deleted,
    /// A part of the long name of the entry that follows.
    LongName(LongNameSlot),
    /// The label of the volume, as the name of an entry.
    Label(Entry),
    /// A file or directory.
    Entry(Entry),
}

impl Entry {
    /// Returns an entry without times, cluster and size.
    pub fn new(name: ShortName, attributes: EntryAttributes) -> Self {
        Self {
            name,
            attributes,
            case: CaseBits::default(),
            created: DosDateTime::default(),
            accessed_date: 0,
            cluster_high: 0,
            modified: DosDateTime::default(),
            cluster_low: 0,
            size: 0,
        }
    }

    /// Decodes an entry, whatever its first byte and its attributes are.
    pub fn decode(bytes: &[u8; ENTRY_SIZE]) -> Self {
        let raw: &RawEntry = transmute_ref!(bytes);
        Self {
            name: ShortName(raw.name),
            attributes: EntryAttributes(raw.attributes),
            case: CaseBits(raw.case),
            created: DosDateTime {
                date: raw.created_date.get(),
                time: raw.created_time.get(),
                hundredths: raw.created_hundredths,
            },
            accessed_date: raw.accessed_date.get(),
            cluster_high: raw.cluster_high.get(),
            modified: DosDateTime { date: raw.modified_date.get(), time: raw.modified_time.get(), hundredths: 0 },
            cluster_low: raw.cluster_low.get(),
            size: raw.size.get(),
        }
    }

    /// Returns the entry as it is stored.
    pub fn encode(&self) -> [u8; ENTRY_SIZE] {
        transmute!(RawEntry {
            name: self.name.0,
            attributes: self.attributes.0,
            case: self.case.0,
            created_hundredths: self.created.hundredths,
            created_time: self.created.time.into(),
            created_date: self.created.date.into(),
            accessed_date: self.accessed_date.into(),
            cluster_high: self.cluster_high.into(),
            modified_time: self.modified.time.into(),
            modified_date: self.modified.date.into(),
            cluster_low: self.cluster_low.into(),
            size: self.size.into(),
        })
    }

    /// Returns the number of the first cluster; 0 of an empty file, and of the root directory in an entry `..`. It need
    /// not exist.
    pub fn first_cluster(&self, width: FatWidth) -> u32 {
        let low = u32::from(self.cluster_low);
        if width == FatWidth::Fat32 { u32::from(self.cluster_high) << 16 | low } else { low }
    }

    /// Sets the number of the first cluster. What other widths than FAT32 have in place of the high half stays.
    pub fn set_first_cluster(&mut self, width: FatWidth, cluster: u32) {
        self.cluster_low = cluster as u16;
        if width == FatWidth::Fat32 {
            self.cluster_high = (cluster >> 16) as u16;
        }
    }

    /// Returns whether the entry is a directory.
    pub fn is_directory(&self) -> bool {
        self.attributes.is_directory()
    }

    /// Returns whether the entry is a file with the attributes hidden and system, as those that this base has for itself.
    pub fn is_hidden_file(&self) -> bool {
        !self.is_directory() && self.attributes.contains(EntryAttributes::HIDDEN | EntryAttributes::SYSTEM)
    }

    /// Makes the entry of a directory that of a file of this size in bytes.
    pub(crate) fn make_file(&mut self, size: u32) {
        self.attributes = self.attributes.with(EntryAttributes::DIRECTORY, false);
        self.size = size;
    }

    /// Returns the number of clusters that a size needs.
    pub fn clusters_of_size(size: u32, cluster_size: u32) -> u32 {
        size.div_ceil(cluster_size.max(1))
    }
}

impl EntrySlot {
    /// Byte that marks an entry as deleted, in place of the first one of its name.
    pub const DELETED: u8 = DELETED;

    /// Decodes what is at a position.
    pub fn decode(bytes: &[u8; ENTRY_SIZE]) -> Self {
        let entry = Entry::decode(bytes);
        match bytes[0] {
            END => Self::End,
            DELETED => Self::Deleted,
            _ if entry.attributes.is_long_name() => Self::LongName(LongNameSlot::decode(bytes)),
            _ if entry.attributes.is_label() => Self::Label(entry),
            _ => Self::Entry(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_decoding() {
        let mut bytes = [0; ENTRY_SIZE];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = index as u8 * 7 + 1;
        }
        assert_eq!(Entry::decode(&bytes).encode(), bytes);
    }

    #[test]
    fn fields_are_at_their_offsets() {
        let mut entry = Entry::new(ShortName(*b"NAME    EXT"), EntryAttributes::ARCHIVE);
        entry.case = CaseBits(CaseBits::LOWER_BASE);
        entry.created = DosDateTime { date: 0x0102, time: 0x0304, hundredths: 5 };
        entry.modified = DosDateTime { date: 0x0607, time: 0x0809, hundredths: 0 };
        (entry.accessed_date, entry.size) = (0x0A0B, 0x0C0D_0E0F);
        entry.set_first_cluster(FatWidth::Fat32, 0x0010_2030);
        let bytes = entry.encode();
        assert_eq!(&bytes[..14], b"NAME    EXT\x20\x08\x05".as_slice());
        assert_eq!(bytes[14..], [4, 3, 2, 1, 11, 10, 0x10, 0, 9, 8, 7, 6, 0x30, 0x20, 15, 14, 13, 12]);
    }

    #[test]
    fn only_fat32_has_the_high_half() {
        let mut entry = Entry::new(ShortName::DOT, EntryAttributes::DIRECTORY);
        entry.cluster_high = 9;
        entry.set_first_cluster(FatWidth::Fat16, 5);
        assert_eq!((entry.cluster_high, entry.first_cluster(FatWidth::Fat16)), (9, 5));
        assert_eq!(entry.first_cluster(FatWidth::Fat32), 0x0009_0005);
    }

    #[test]
    fn slots_are_told_apart() {
        let slot = |first, attributes| {
            let mut bytes = Entry::new(ShortName(*b"NAME       "), EntryAttributes(attributes)).encode();
            bytes[0] = first;
            EntrySlot::decode(&bytes)
        };
        assert_eq!((slot(0, 0x0F), slot(0xE5, 0x0F)), (EntrySlot::End, EntrySlot::Deleted));
        assert!(matches!(slot(1, 0x0F), EntrySlot::LongName(_)));
        assert!(matches!(slot(b'N', 0x08), EntrySlot::Label(_)));
        assert!(matches!(slot(b'N', 0x10), EntrySlot::Entry(entry) if entry.is_directory()));
        assert!(matches!(slot(0x05, 0x20), EntrySlot::Entry(entry) if !entry.is_directory()));
    }
}
