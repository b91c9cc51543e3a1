//! Directory records: what a directory says about each of its objects, and what volume descriptors say about the root.

use vnode::Timestamp;

use super::fields::{Fields, Malformed};
use super::time;

/// Length of a record before its identifier.
const FIXED_LENGTH: usize = 33;

/// Identifier of the record of the directory itself, the first one.
const SELF: &[u8] = &[0];
/// Identifier of the record of the parent directory, the second one.
const PARENT: &[u8] = &[1];

/// A directory record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryRecord<'a> {
    /// Length of the record in bytes.
    pub(crate) length: usize,
    /// Number of logical blocks of the extended attribute record before the data.
    pub(crate) attribute_blocks: u8,
    /// First logical block of the extent.
    pub(crate) block: u32,
    /// Length of the data in bytes.
    pub(crate) data_length: u32,
    /// Date and time of recording.
    pub(crate) recorded: Option<Timestamp>,
    flags: u8,
    /// Number of logical blocks of each unit of an interleaved file; 0 for others.
    pub(crate) unit_blocks: u8,
    /// Number of logical blocks between two units.
    pub(crate) gap_blocks: u8,
    /// The name as recorded.
    pub(crate) identifier: &'a [u8],
    /// The rest of the record, for the use of the system: of Rock Ridge, usually.
    pub(crate) system_use: &'a [u8],
}

impl<'a> DirectoryRecord<'a> {
    /// Decodes the record at the beginning of `bytes`, which end with the sector; `None` if no record follows in it.
    ///
    /// # Errors
    /// [`Malformed`] if the record is shorter than its fields, or longer than the rest of the sector.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Some(&length) = bytes.first().filter(|length| **length != 0) else { return Ok(None) };
        let length = usize::from(length);
        let fields = Fields(bytes.get(..length).ok_or(Malformed)?);
        let identifier_length = usize::from(fields.byte(32)?);
        let identifier = fields.bytes(FIXED_LENGTH, identifier_length)?;
        // A pad byte makes the offset of what follows even.
        let system_use = FIXED_LENGTH + identifier_length + usize::from(identifier_length % 2 == 0);
        Ok(Some(Self {
            length,
            attribute_blocks: fields.byte(1)?,
            block: fields.both32(2)?,
            data_length: fields.both32(10)?,
            recorded: time::short(fields.bytes(18, time::SHORT_LENGTH)?),
            flags: fields.byte(25)?,
            unit_blocks: fields.byte(26)?,
            gap_blocks: fields.byte(27)?,
            identifier,
            system_use: fields.0.get(system_use..).unwrap_or_default(),
        }))
    }

    /// Returns whether the object is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.flags & 0x02 != 0
    }

    /// Returns whether the file is associated with the next one of the same name, such as a resource fork.
    pub(crate) fn is_associated(&self) -> bool {
        self.flags & 0x04 != 0
    }

    /// Returns whether the next record continues the file.
    pub(crate) fn is_continued(&self) -> bool {
        self.flags & 0x80 != 0
    }

    /// Returns whether this is the record of the directory that it is in.
    pub(crate) fn is_self(&self) -> bool {
        self.identifier == SELF
    }

    /// Returns whether this is the record of the parent directory.
    pub(crate) fn is_parent(&self) -> bool {
        self.identifier == PARENT
    }

    /// Returns the first logical block of the data of a directory, which is what identifies it.
    ///
    /// # Errors
    /// [`Malformed`] if there is no such block.
    pub(crate) fn data_block(&self) -> Result<u32, Malformed> {
        self.block.checked_add(u32::from(self.attribute_blocks)).ok_or(Malformed)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a record without system use area.
    pub(crate) fn record(identifier: &[u8], block: u32, data_length: u32, flags: u8) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_LENGTH];
        for (offset, number) in [(2, block), (10, data_length)] {
            bytes[offset..offset + 4].copy_from_slice(&number.to_le_bytes());
            bytes[offset + 4..offset + 8].copy_from_slice(&number.to_be_bytes());
        }
        bytes[18..21].copy_from_slice(&[100, 1, 1]);
        bytes[25] = flags;
        bytes[32] = identifier.len() as u8;
        bytes.extend_from_slice(identifier);
        bytes.extend_from_slice(if identifier.len().is_multiple_of(2) { &[0] } else { &[] });
        bytes[0] = bytes.len() as u8;
        bytes
    }

    #[test]
    fn fields_are_where_the_standard_has_them() {
        let mut bytes = record(b"FILE.TXT;1", 0x0102_0304, 77, 0x80);
        (bytes[1], bytes[26], bytes[27]) = (3, 4, 5);
        bytes[0] += 2;
        bytes.extend_from_slice(b"SUx");
        let record = DirectoryRecord::parse(&bytes).unwrap().unwrap();
        assert_eq!((record.block, record.data_length, record.length), (0x0102_0304, 77, 46));
        assert_eq!((record.attribute_blocks, record.unit_blocks, record.gap_blocks), (3, 4, 5));
        assert_eq!((record.identifier, record.system_use), (&b"FILE.TXT;1"[..], &b"SU"[..]));
        assert!(record.is_continued() && !record.is_directory() && !record.is_associated());
        assert_eq!(record.recorded.unwrap().seconds, 946_684_800);
        assert_eq!(record.data_block(), Ok(0x0102_0307));
    }

    #[test]
    fn a_zero_ends_the_records_of_a_sector() {
        assert!(DirectoryRecord::parse(&[]).unwrap().is_none());
        assert!(DirectoryRecord::parse(&[0; 64]).unwrap().is_none());
    }

    #[test]
    fn what_does_not_fit_is_malformed() {
        let whole = record(b"F", 1, 1, 0);
        for (offset, value) in [(0, 33), (0, 35), (0, 255), (32, 2), (32, 255)] {
            let mut bytes = whole.clone();
            bytes[offset] = value;
            assert_eq!(DirectoryRecord::parse(&bytes).err(), Some(Malformed), "{value} at {offset}");
        }
        let mut bytes = whole;
        bytes[1] = 1;
        bytes[2..6].fill(0xff);
        assert_eq!(DirectoryRecord::parse(&bytes).unwrap().unwrap().data_block(), Err(Malformed));
    }

    #[test]
    fn the_directory_and_its_parent_are_recognized() {
        let parsed = |identifier: &[u8]| {
            let bytes = record(identifier, 1, 2048, 2);
            let record = DirectoryRecord::parse(&bytes).unwrap().unwrap();
            (record.is_self(), record.is_parent(), record.is_directory())
        };
        assert_eq!(parsed(&[0]), (true, false, true));
        assert_eq!(parsed(&[1]), (false, true, true));
        assert_eq!(parsed(&[0, 0]), (false, false, true));
    }
}
