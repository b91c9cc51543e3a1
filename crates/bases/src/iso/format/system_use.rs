//! The System Use Sharing Protocol (SUSP, IEEE P1281): entries with two-letter signatures in the system use areas of directory
//! records, and where they continue.

use super::fields::{Fields, Malformed};

/// One entry of a system use area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemUseEntry<'a> {
    pub(crate) signature: [u8; 2],
    pub(crate) version: u8,
    /// What follows the four bytes that all entries begin with.
    pub(crate) data: &'a [u8],
}

/// The entries of one area. They end with the area, at padding, or with an `ST` entry.
#[derive(Clone, Debug)]
pub(crate) struct SystemUseEntries<'a>(pub(crate) &'a [u8]);

/// The location of more entries of the same record (`CE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContinuationArea {
    /// Logical block.
    pub(crate) block: u32,
    /// Offset from the beginning of the block in bytes.
    pub(crate) offset: u32,
    /// Length in bytes.
    pub(crate) length: u32,
}

/// The name of a set of extensions that is in use (`ER`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExtensionReference {
    pub(crate) identifier: Vec<u8>,
}

/// Length of the signature, length and version of an entry.
const HEADER_LENGTH: usize = 4;

impl<'a> Iterator for SystemUseEntries<'a> {
    type Item = Result<SystemUseEntry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let &[first, second, length, version] = self.0.first_chunk()?;
        let length = usize::from(length);
        // Zeros are padding, and an area may have bytes that are no entries behind the last one.
        if length < HEADER_LENGTH || first == 0 || [first, second] == *b"ST" {
            self.0 = &[];
            return None;
        }
        let Some((entry, rest)) = self.0.split_at_checked(length) else {
            self.0 = &[];
            return Some(Err(Malformed));
        };
        self.0 = rest;
        Some(Ok(SystemUseEntry { signature: [first, second], version, data: &entry[HEADER_LENGTH..] }))
    }
}

impl ContinuationArea {
    /// Decodes the data of a `CE` entry.
    ///
    /// # Errors
    /// [`Malformed`] if it is short.
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let fields = Fields(data);
        Ok(Self { block: fields.both32(0)?, offset: fields.both32(8)?, length: fields.both32(16)? })
    }
}

impl ExtensionReference {
    /// Decodes the data of an `ER` entry.
    ///
    /// # Errors
    /// [`Malformed`] if it is shorter than its identifier.
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let fields = Fields(data);
        let length = usize::from(fields.byte(0)?);
        Ok(Self { identifier: fields.bytes(4, length)?.to_vec() })
    }
}

/// Length of the attributes that CD-ROM XA puts before all entries.
const XA_LENGTH: usize = 14;
/// Offset of the signature of these attributes, and the signature.
const XA_SIGNATURE: (usize, &[u8]) = (6, b"XA");

/// Returns the number of bytes to be skipped in the system use areas of all records but the first of the root directory, given
/// the area of that one; and the rest of it, from the entry that says so (`SP`). `None` if the protocol is not used.
pub(crate) fn sharing(area: &[u8]) -> Option<(usize, &[u8])> {
    let has_xa = Fields(area).bytes(XA_SIGNATURE.0, XA_SIGNATURE.1.len()) == Ok(XA_SIGNATURE.1);
    let starts = [Some(0), has_xa.then_some(XA_LENGTH)];
    starts.into_iter().flatten().find_map(|start| {
        let entries = area.get(start..)?;
        let entry = SystemUseEntries(entries).next()?.ok()?;
        match entry.data {
            [0xbe, 0xef, skipped, ..] if entry.signature == *b"SP" => Some((usize::from(*skipped), entries)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signatures(area: &[u8]) -> Vec<Result<[u8; 2], Malformed>> {
        SystemUseEntries(area).map(|entry| entry.map(|entry| entry.signature)).collect()
    }

    #[test]
    fn entries_follow_each_other_to_the_end() {
        assert_eq!(signatures(b"AB\x04\x01CD\x06\x01xy"), [Ok(*b"AB"), Ok(*b"CD")]);
        assert_eq!(signatures(b"AB\x04\x01ST\x04\x01CD\x04\x01"), [Ok(*b"AB")]);
        assert_eq!(signatures(b"AB\x04\x01\0\0\0\0"), [Ok(*b"AB")]);
        assert_eq!(signatures(b"AB\x04\x01X"), [Ok(*b"AB")]);
        assert_eq!(signatures(b"AB\x03\x01CD\x04\x01"), []);
    }

    #[test]
    fn an_entry_that_is_cut_off_is_malformed() {
        assert_eq!(signatures(b"AB\x04\x01CD\x07\x01xy"), [Ok(*b"AB"), Err(Malformed)]);
    }

    #[test]
    fn the_protocol_announces_itself_also_behind_other_attributes() {
        let entry = b"SP\x07\x01\xbe\xef\x00PX\x04\x01";
        assert_eq!(sharing(entry), Some((0, &entry[..])));
        let behind_xa = [&b"\0\0\0\0\r\x55XA\0\0\0\0\0\0SP\x07\x01\xbe\xef\x0e"[..]].concat();
        assert_eq!(sharing(&behind_xa), Some((14, &behind_xa[14..])));
        assert_eq!(sharing(b"SP\x07\x01\xbe\xee\x00"), None);
        assert_eq!(sharing(b"SP\x06\x01\xbe\xef"), None);
        assert_eq!(sharing(b""), None);
    }

    #[test]
    fn continuations_and_references_are_decoded() {
        let mut data = [0; 24];
        (data[0], data[8], data[17]) = (7, 5, 1);
        assert_eq!(ContinuationArea::parse(&data), Ok(ContinuationArea { block: 7, offset: 5, length: 256 }));
        assert_eq!(ContinuationArea::parse(&data[..23]), Err(Malformed));
        assert_eq!(ExtensionReference::parse(b"\x02\x00\x00\x01RR").unwrap().identifier, b"RR");
        assert_eq!(ExtensionReference::parse(b"\x03\x00\x00\x01RR"), Err(Malformed));
    }
}
