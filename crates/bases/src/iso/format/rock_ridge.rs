//! Rock Ridge (RRIP 1.09 to 1.12, IEEE P1282): the entries with the attributes that a Unix file system has.

use vnode::{Device, Timestamp};

use super::fields::{Fields, Malformed};
use super::time;

/// Identifiers by which the extensions announce themselves (`ER`), in all versions.
pub(crate) const IDENTIFIERS: [&[u8]; 3] = [b"RRIP_1991A", b"IEEE_P1282", b"IEEE_1282"];

/// POSIX attributes of a file (`PX`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PosixAttributes {
    /// Kind and permissions, as `st_mode`.
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl PosixAttributes {
    /// Decodes the data of an entry of 36 bytes (RRIP 1.09) or 44 (1.12: a serial number follows, which is not used).
    ///
    /// # Errors
    /// [`Malformed`] if it is short.
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let fields = Fields(data);
        Ok(Self { mode: fields.both32(0)?, nlink: fields.both32(8)?, uid: fields.both32(16)?, gid: fields.both32(24)? })
    }
}

/// Decodes the data of an entry with a device number (`PN`).
///
/// If the upper half is in use, the halves are major and minor number, as BSD writes them. Otherwise the lower half is a `dev_t`,
/// as programs for Linux write it.
///
/// # Errors
/// [`Malformed`] if it is short.
pub(crate) fn device_number(data: &[u8]) -> Result<Device, Malformed> {
    let fields = Fields(data);
    Ok(match (fields.both32(0)?, fields.both32(8)?) {
        (0, number) => Device { major: number >> 8 & 0xfff, minor: number & 0xff | number >> 12 & 0xfff00 },
        (major, minor) => Device { major, minor },
    })
}

/// Decodes the data of an entry with the location of a directory (`CL`, `PL`): its first logical block.
///
/// # Errors
/// [`Malformed`] if it is short.
pub(crate) fn location(data: &[u8]) -> Result<u32, Malformed> {
    Fields(data).both32(0)
}

/// Decodes the data of an entry with the size of a sparse file (`SF`), with or without an upper half.
///
/// # Errors
/// [`Malformed`] if it is short.
pub(crate) fn sparse_size(data: &[u8]) -> Result<u64, Malformed> {
    let fields = Fields(data);
    match fields.both32(8) {
        Ok(low) => Ok(u64::from(fields.both32(0)?) << 32 | u64::from(low)),
        Err(Malformed) => Ok(u64::from(fields.both32(0)?)),
    }
}

/// Times of a file (`TF`), of those that a Unix file system has; `None` where an entry has none or an invalid one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileTimes {
    pub(crate) created: Option<Timestamp>,
    pub(crate) modified: Option<Timestamp>,
    pub(crate) accessed: Option<Timestamp>,
    pub(crate) attributes_changed: Option<Timestamp>,
}

impl FileTimes {
    /// Adds the times of an entry to those of earlier ones, which have precedence. The stamps are in the order of the bits that
    /// announce them; backup, expiration and effective time are not used.
    ///
    /// # Errors
    /// [`Malformed`] if it is shorter than the times that it announces.
    pub(crate) fn add(&mut self, data: &[u8]) -> Result<(), Malformed> {
        const LONG_FORM: u8 = 0x80;
        let fields = Fields(data);
        let flags = fields.byte(0)?;
        let is_long = flags & LONG_FORM != 0;
        let length = if is_long { time::LONG_LENGTH } else { time::SHORT_LENGTH };
        let mut offset = 1;
        for bit in 0..7 {
            if flags & 1 << bit == 0 {
                continue;
            }
            let stamp = fields.bytes(offset, length)?;
            offset += length;
            let time = if is_long { time::long(stamp) } else { time::short(stamp) };
            let field = match bit {
                0 => &mut self.created,
                1 => &mut self.modified,
                2 => &mut self.accessed,
                3 => &mut self.attributes_changed,
                _ => continue,
            };
            *field = field.or(time);
        }
        Ok(())
    }
}

/// Longest name in bytes that is assembled from parts. More than any name may have, so that different long names stay so.
const NAME_BYTES_MAX: usize = 1024;

/// The name of a file, in one or more parts (`NM`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AlternateName {
    bytes: Vec<u8>,
    is_complete: bool,
}

impl AlternateName {
    /// Adds the part in the data of an entry. A part that only refers to the directory, its parent or the host is no name; what
    /// follows a part that does not announce it is ignored.
    ///
    /// # Errors
    /// [`Malformed`] if it is empty.
    pub(crate) fn add(&mut self, data: &[u8]) -> Result<(), Malformed> {
        const CONTINUES: u8 = 0x01;
        const IS_REFERENCE: u8 = 0x02 | 0x04 | 0x20;
        let (flags, part) = data.split_first().ok_or(Malformed)?;
        if self.is_complete || flags & IS_REFERENCE != 0 {
            return Ok(());
        }
        let room = NAME_BYTES_MAX.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(part.get(..room).unwrap_or(part));
        self.is_complete = flags & CONTINUES == 0;
        Ok(())
    }

    /// Returns the name; `None` if no part had one.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        (!self.bytes.is_empty()).then_some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| [number.to_le_bytes(), number.to_be_bytes()].concat()).collect()
    }

    #[test]
    fn attributes_have_two_lengths() {
        let expected = PosixAttributes { mode: 0o100644, nlink: 2, uid: 1000, gid: 100 };
        assert_eq!(PosixAttributes::parse(&both(&[0o100644, 2, 1000, 100])), Ok(expected));
        assert_eq!(PosixAttributes::parse(&both(&[0o100644, 2, 1000, 100, 77])), Ok(expected));
        assert_eq!(PosixAttributes::parse(&both(&[0o100644, 2, 1000])), Err(Malformed));
    }

    #[test]
    fn device_numbers_of_linux_and_bsd() {
        let device = |high, low| device_number(&both(&[high, low])).unwrap();
        assert_eq!(device(0, 0x0801), Device { major: 8, minor: 1 });
        assert_eq!(device(0, 0x1234_5678), Device { major: 0x456, minor: 0x12378 });
        assert_eq!(device(8, 1), Device { major: 8, minor: 1 });
        assert_eq!(device_number(&both(&[8])), Err(Malformed));
    }

    #[test]
    fn sparse_sizes_have_two_lengths() {
        assert_eq!(sparse_size(&[both(&[1, 2]), vec![3]].concat()), Ok(0x1_0000_0002));
        assert_eq!(sparse_size(&both(&[5])), Ok(5));
        assert_eq!(sparse_size(&[0; 7]), Err(Malformed));
    }

    #[test]
    fn times_are_in_the_order_of_their_bits() {
        let stamp = |second| [70, 1, 1, 0, 0, second, 0];
        let at = |seconds| Some(Timestamp { seconds, nanoseconds: 0 });
        let mut times = FileTimes::default();
        times.add(&[&[0x1a][..], &stamp(1), &stamp(2), &stamp(3)].concat()).unwrap();
        assert_eq!(times, FileTimes { modified: at(1), attributes_changed: at(2), ..FileTimes::default() });
        let long = |digits: &[u8]| [digits, &[0]].concat();
        times.add(&[&[0x83][..], &long(b"1970010100000500"), &long(b"1970010100000600")].concat()).unwrap();
        assert_eq!((times.created, times.modified), (at(5), at(1)));
        assert_eq!(times.add(&[&[0x03][..], &stamp(1)].concat()), Err(Malformed));
        assert_eq!(times.add(&[]), Err(Malformed));
    }

    #[test]
    fn names_are_joined() {
        let name = |parts: &[&[u8]]| {
            let mut name = AlternateName::default();
            parts.iter().try_for_each(|part| name.add(part)).map(|()| name.into_bytes())
        };
        assert_eq!(name(&[b"\x01long-", b"\x00name", b"\x00more"]), Ok(Some(b"long-name".to_vec())));
        assert_eq!(name(&[b"\x02"]), Ok(None));
        assert_eq!(name(&[b"\x04..", b"\x00x"]), Ok(Some(b"x".to_vec())));
        assert_eq!(name(&[b"\x00"]), Ok(None));
        assert_eq!(name(&[b""]), Err(Malformed));
        let long = [&[1][..], &[b'x'; 250]].concat();
        assert_eq!(name(&vec![&long[..]; 100]).unwrap().unwrap().len(), NAME_BYTES_MAX);
    }
}
