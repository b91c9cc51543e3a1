//! Metadata in ten bytes of an entry, after the paper on DosFs: a reserved attribute marks an entry that has them.

use vnode::Device;

use crate::fat::format::{DosDateTime, Entry, EntryAttributes};

use super::fields::{UnixFields, kind_number, kind_of_number};

/// Attribute of an entry with metadata.
pub(crate) const MARK: EntryAttributes = EntryAttributes(0x40);

const MODE_BITS: u32 = 0o7777;

/// Returns whether an entry can have this owner, group and device number.
pub(crate) fn can_store(uid: u32, gid: u32, device: Device) -> bool {
    let is_small = |id: u32| u16::try_from(id).is_ok();
    is_small(uid) && is_small(gid) && device.major.max(device.minor) <= u8::MAX.into()
}

/// Returns what an entry has; `None` if it is not marked, or has something else.
pub(crate) fn decode(entry: &Entry) -> Option<UnixFields> {
    if !entry.attributes.contains(MARK) {
        return None;
    }
    let [minor, major] = entry.cluster_high.to_le_bytes();
    Some(UnixFields {
        kind: kind_of_number(entry.created.hundredths)?,
        mode: u32::from(entry.created.time) & MODE_BITS,
        uid: entry.created.date.into(),
        gid: entry.accessed_date.into(),
        device: Device { major: major.into(), minor: minor.into() },
    })
}

/// Stores fields in an entry.
pub(crate) fn encode(entry: &mut Entry, fields: &UnixFields) {
    entry.attributes |= MARK;
    entry.created = DosDateTime {
        hundredths: kind_number(fields.kind),
        time: (fields.mode & MODE_BITS) as u16,
        date: fields.uid as u16,
    };
    entry.accessed_date = fields.gid as u16;
    entry.cluster_high = u16::from_le_bytes([fields.device.minor as u8, fields.device.major as u8]);
}

#[cfg(test)]
mod tests {
    use vnode::FileKind;

    use super::*;
    use crate::fat::format::ShortName;

    #[test]
    fn fields_are_in_bytes_13_to_21() {
        let fields = UnixFields {
            kind: FileKind::BlockDevice,
            mode: 0o660,
            uid: 1000,
            gid: 6,
            device: Device { major: 8, minor: 1 },
        };
        let mut entry = Entry::new(ShortName(*b"SDA1       "), EntryAttributes::ARCHIVE);
        encode(&mut entry, &fields);
        let bytes = entry.encode();
        assert_eq!((bytes[11], bytes[12]), (0x60, 0));
        assert_eq!(bytes[13..22], [4, 0xB0, 0x01, 0xE8, 0x03, 6, 0, 1, 8]);
        assert_eq!(decode(&entry), Some(fields));
        entry.attributes = EntryAttributes::ARCHIVE;
        assert_eq!(decode(&entry), None);
        assert!(!can_store(65_536, 0, Device::default()) && can_store(65_535, 65_535, fields.device));
    }
}
