//! Records: the attributes of one object as the log has them.

use vnode::{Device, FileKind, Timestamp};

use crate::fat::format::{DosDateTime, EntryAttributes, units_from_name, units_to_name};
use crate::unix::acl::Acl;
use crate::unix::protection::Protection;
use crate::unix::times::Times;

use super::bytes::{FieldReader, FieldWriter};
use super::extended_attributes::ExtendedAttributes;

const ATTRIBUTES: u8 = 1;
const REMOVAL: u8 = 2;

/// What identifies the object of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Code units of the name, see [`crate::fat::directory::contents::Contents::recorded_name`]; none for the root directory.
    pub(crate) name: Vec<u16>,
    /// Time of the creation as the entry has it.
    pub(crate) created: DosDateTime,
    /// First cluster; 0 if there was none.
    pub(crate) cluster: u32,
}

/// The fields of an entry when its record was made: if they are different later, somebody else has changed the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryState {
    pub(crate) attributes: EntryAttributes,
    pub(crate) modified: DosDateTime,
    pub(crate) accessed_date: u16,
    pub(crate) size: u32,
}

/// The attributes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) protection: Protection,
    pub(crate) device: Device,
    pub(crate) times: Times,
    pub(crate) extended_attributes: ExtendedAttributes,
    pub(crate) entry: EntryState,
}

/// One item of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogItem {
    /// The object has these attributes from here on.
    Attributes(Identity, Box<Record>),
    /// The object is gone. Records from this offset in the log on are of another one, whatever they say.
    Removal(Identity, u64),
}

impl Record {
    /// Returns this record without what lets others act with the rights of the owner: that of an object which another system has
    /// replaced.
    pub(crate) fn without_privileges(mut self: Box<Self>) -> Box<Self> {
        self.protection.mode &= !privileges(self.protection.kind);
        self.extended_attributes.forget_capability();
        self
    }

    /// Returns the size of the record of an object with a name of this many code units, at most, in bytes.
    pub(crate) fn encoded_size(&self, name_length: usize) -> u64 {
        const FIXED: usize = 160;
        let acls = [&self.protection.access_acl, &self.protection.default_acl];
        let acls: usize = acls.iter().map(|acl| acl.as_ref().map_or(0, |acl| acl.to_bytes().len())).sum();
        let attributes = &self.extended_attributes;
        (FIXED + 3 * name_length + acls + attributes.size() + 8 * attributes.names().count()) as u64
    }
}

/// Returns the mode bits with which an object acts for its owner or group.
pub(crate) fn privileges(kind: FileKind) -> u32 {
    if kind == FileKind::Directory { 0 } else { libc::S_ISUID | libc::S_ISGID }
}

impl LogItem {
    /// Returns the encoding.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = FieldWriter::default();
        match self {
            Self::Attributes(identity, record) => {
                writer.u8(ATTRIBUTES);
                encode_identity(&mut writer, identity);
                encode_record(&mut writer, record);
            }
            Self::Removal(identity, end) => {
                writer.u8(REMOVAL);
                encode_identity(&mut writer, identity);
                writer.u64(*end);
            }
        }
        writer.0
    }

    /// Decodes an item; `None` if it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader(bytes);
        let tag = reader.u8()?;
        let identity = decode_identity(&mut reader)?;
        match tag {
            ATTRIBUTES => Some(Self::Attributes(identity, Box::new(decode_record(&mut reader)?))),
            REMOVAL => Some(Self::Removal(identity, reader.u64()?)),
            _ => None,
        }
    }
}

fn encode_identity(writer: &mut FieldWriter, identity: &Identity) {
    writer.counted(&units_to_name(&identity.name));
    encode_date_time(writer, identity.created);
    writer.u32(identity.cluster);
}

fn decode_identity(reader: &mut FieldReader<'_>) -> Option<Identity> {
    let name = units_from_name(reader.counted()?)?;
    Some(Identity { name, created: decode_date_time(reader)?, cluster: reader.u32()? })
}

fn encode_record(writer: &mut FieldWriter, record: &Record) {
    let protection = &record.protection;
    writer.u32(protection.kind.mode_bits() | protection.mode);
    for value in [protection.uid, protection.gid, record.device.major, record.device.minor] {
        writer.u32(value);
    }
    let times = &record.times;
    for time in [times.atime, times.mtime, times.ctime, times.btime] {
        writer.i64(time.seconds);
        writer.u32(time.nanoseconds);
    }
    writer.u8(record.entry.attributes.0);
    encode_date_time(writer, record.entry.modified);
    writer.u16(record.entry.accessed_date);
    writer.u32(record.entry.size);
    for acl in [&protection.access_acl, &protection.default_acl] {
        writer.counted(&acl.as_ref().map(|acl| acl.to_bytes()).unwrap_or_default());
    }
    record.extended_attributes.encode(writer);
}

fn decode_record(reader: &mut FieldReader<'_>) -> Option<Record> {
    let mode = reader.u32()?;
    let kind = FileKind::from_mode(mode)?;
    let (uid, gid) = (reader.u32()?, reader.u32()?);
    let device = Device { major: reader.u32()?, minor: reader.u32()? };
    let mut time = || {
        let seconds = reader.i64()?;
        Some(Timestamp { seconds, nanoseconds: reader.u32().filter(|&nanoseconds| nanoseconds < 1_000_000_000)? })
    };
    let times = Times { atime: time()?, mtime: time()?, ctime: time()?, btime: time()? };
    let entry = EntryState {
        attributes: EntryAttributes(reader.u8()?),
        modified: decode_date_time(reader)?,
        accessed_date: reader.u16()?,
        size: reader.u32()?,
    };
    let mut acl = || {
        let acl = Acl::parse(reader.counted()?).ok()?;
        acl.as_ref().is_none_or(|acl| acl.check().is_ok()).then_some(acl.map(Box::new))
    };
    let (access_acl, default_acl) = (acl()?, acl()?);
    let protection = Protection { kind, uid, gid, mode: mode & 0o7777, access_acl, default_acl };
    Some(Record { protection, device, times, extended_attributes: ExtendedAttributes::decode(reader)?, entry })
}

fn encode_date_time(writer: &mut FieldWriter, time: DosDateTime) {
    writer.u16(time.date);
    writer.u16(time.time);
    writer.u8(time.hundredths);
}

fn decode_date_time(reader: &mut FieldReader<'_>) -> Option<DosDateTime> {
    Some(DosDateTime { date: reader.u16()?, time: reader.u16()?, hundredths: reader.u8()? })
}

#[cfg(test)]
mod tests {
    use vnode::XattrMode;

    use super::*;

    fn record() -> Record {
        let acl = |bytes: &[u8]| Acl::parse(bytes).unwrap().map(Box::new);
        let entry = |tag: u8, permissions: u8, id: [u8; 4]| [&[tag, 0, permissions, 0][..], &id].concat();
        let list = [
            &[2, 0, 0, 0][..],
            &entry(1, 7, [0xFF; 4]),
            &entry(2, 6, [9, 0, 0, 0]),
            &entry(4, 5, [0xFF; 4]),
            &entry(16, 7, [0xFF; 4]),
            &entry(32, 0, [0xFF; 4]),
        ]
        .concat();
        let mut extended_attributes = ExtendedAttributes::default();
        extended_attributes.set(b"user.name", b"value", XattrMode::Set).unwrap();
        let protection = Protection {
            kind: FileKind::Fifo,
            uid: 1,
            gid: u32::MAX - 1,
            mode: 0o4751,
            access_acl: acl(&list),
            default_acl: None,
        };
        let times = Times { mtime: Timestamp { seconds: -5, nanoseconds: 999_999_999 }, ..Times::now() };
        let modified = DosDateTime { date: 1, time: 2, hundredths: 3 };
        let entry = EntryState { attributes: EntryAttributes::READ_ONLY, modified, accessed_date: 4, size: 5 };
        Record { protection, device: Device { major: 8, minor: 1 }, times, extended_attributes, entry }
    }

    #[test]
    fn items_survive_encoding() {
        let name = "漢字 x".encode_utf16().chain([0xD800]).collect();
        let identity = Identity { name, created: DosDateTime { date: 7, time: 8, hundredths: 9 }, cluster: 10 };
        let items =
            [LogItem::Attributes(identity.clone(), Box::new(record())), LogItem::Removal(identity.clone(), 1 << 40)];
        for item in items {
            let bytes = item.encode();
            assert!(bytes.len() as u64 <= record().encoded_size(identity.name.len()));
            assert_eq!(LogItem::decode(&bytes), Some(item));
            (0..bytes.len()).for_each(|length| assert_eq!(LogItem::decode(&bytes[..length]), None));
        }
    }

    #[test]
    fn invalid_fields_are_no_record() {
        let identity = Identity { name: vec![120], created: DosDateTime::default(), cluster: 0 };
        let bytes = LogItem::Attributes(identity, Box::new(record())).encode();
        let mode_at = 1 + 4 + 1 + 5 + 4;
        let mut without_kind = bytes.clone();
        without_kind[mode_at + 1] = 0;
        assert_eq!(LogItem::decode(&without_kind), None);
        let mut nanoseconds = bytes;
        nanoseconds[mode_at + 20 + 8..][..4].fill(0xFF);
        assert_eq!(LogItem::decode(&nanoseconds), None);
    }
}
