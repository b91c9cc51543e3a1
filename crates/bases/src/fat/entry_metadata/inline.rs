//! Metadata as a time of creation: a valid one, which other systems keep when they rename a file, from 2099 on.

use vnode::{Device, FileKind};

use crate::fat::format::DosDateTime;

use super::fields::{UnixFields, kind_number, kind_of_number};
use super::owners::{OWNERS_MAX, OwnerTable};
use super::time_number::{NUMBERS, number_of_time, time_of_number};

/// Size of the data of a device node: major and minor number.
pub(crate) const DEVICE_SIZE: usize = 8;

/// Number of modes.
const MODES: u64 = 0o10000;
const KINDS: u64 = 6;

const VALUES: u64 = KINDS * MODES * OWNERS_MAX as u64 * OWNERS_MAX as u64;
const _: () = assert!(VALUES <= NUMBERS);

/// Returns the time that stands for these fields, with owner and group by their numbers.
pub(crate) fn encode(fields: &UnixFields, (user, group): (u32, u32)) -> DosDateTime {
    let kind = u64::from(kind_number(fields.kind)) * MODES + u64::from(fields.mode) % MODES;
    let owners = u64::from(OWNERS_MAX);
    time_of_number((kind * owners + u64::from(user) % owners) * owners + u64::from(group) % owners)
}

/// Returns the fields that a time stands for; `None` for a real time, and if the owner or group is not known.
pub(crate) fn decode(time: DosDateTime, owners: &OwnerTable) -> Option<UnixFields> {
    let value = number_of_time(time)?;
    let count = u64::from(OWNERS_MAX);
    let (rest, group) = (value / count, value % count);
    let (rest, user) = (rest / count, rest % count);
    let kind = kind_of_number(u8::try_from(rest / MODES).ok()?)?;
    let (uid, gid) = owners.ids(user as u32, group as u32)?;
    Some(UnixFields { kind, mode: (rest % MODES) as u32, uid, gid, device: Device::default() })
}

/// Returns the data of a device node.
pub(crate) fn device_data(device: Device) -> [u8; DEVICE_SIZE] {
    let mut data = [0; DEVICE_SIZE];
    data[..4].copy_from_slice(&device.major.to_le_bytes());
    data[4..].copy_from_slice(&device.minor.to_le_bytes());
    data
}

/// Returns the number of the device whose node has this data.
pub(crate) fn device_of_data([a, b, c, d, rest @ ..]: [u8; DEVICE_SIZE]) -> Device {
    Device { major: u32::from_le_bytes([a, b, c, d]), minor: u32::from_le_bytes(rest) }
}

/// Returns whether an object is a device node, whose data is its number.
pub(crate) fn has_device_data(kind: FileKind) -> bool {
    matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners() -> OwnerTable {
        let mut owners = OwnerTable::default();
        for (number, id) in [(0, 0), (1, 1000), (1023, 70_000)] {
            owners.add(false, number, id);
            owners.add(true, number, id + 5);
        }
        owners
    }

    #[test]
    fn fields_survive_as_valid_times() {
        for kind in (0..6).filter_map(kind_of_number) {
            for mode in [0, 0o644, 0o7777] {
                for (uid, gid) in [(0, 5), (1000, 70_005), (70_000, 70_005)] {
                    let fields = UnixFields { kind, mode, uid, gid, device: Device::default() };
                    let time = encode(&fields, owners().numbers(uid, gid).unwrap());
                    assert!(time.decode(0).is_some(), "{time:?}");
                    assert_eq!(decode(time, &owners()), Some(fields));
                }
            }
        }
    }

    #[test]
    fn the_example_of_the_format_is_right() {
        let fields =
            UnixFields { kind: FileKind::Regular, mode: 0o640, uid: 1000, gid: 1005, device: Device::default() };
        let time = encode(&fields, (1, 1));
        assert_eq!((time.hundredths, time.time, time.date), EXAMPLE);
    }

    #[test]
    fn real_times_are_no_metadata() {
        let real = DosDateTime { date: 118 << 9 | 12 << 5 | 31, time: 0, hundredths: 0 };
        let invalid = DosDateTime { date: 119 << 9 | 13 << 5 | 1, ..real };
        let late = DosDateTime { date: 119 << 9 | 1 << 5 | 29, ..real };
        let unknown = encode(&UnixFields { mode: 0, ..fields() }, (5, 5));
        assert_eq!([real, invalid, late, unknown].map(|time| decode(time, &owners())), [None; 4]);
    }

    fn fields() -> UnixFields {
        UnixFields { kind: FileKind::Regular, mode: 0, uid: 0, gid: 0, device: Device::default() }
    }

    /// Hundredths, time and date of the value 416 · 2^20 + 1 · 2^10 + 1 = 436,208,641.
    const EXAMPLE: (u8, u16, u16) = (41, 0x5D2D, 0xEE57);
}
