//! Handles: number, place and time of creation of an object, by which it is found again after a restart.

use vnode::{Handle, InodeNumber};

use crate::fat::format::DosDateTime;

use super::numbers::{EntryLocation, ROOT_NUMBER, cluster_of};
use super::volume::Volume;

const VERSION: u8 = 1;
const SIZE: usize = 26;

/// The parts of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandleParts {
    pub(crate) serial: u32,
    pub(crate) number: InodeNumber,
    /// Where the entry was when the handle was made.
    pub(crate) place: EntryLocation,
    pub(crate) created: DosDateTime,
}

impl HandleParts {
    /// Returns the handle.
    pub(crate) fn encode(&self) -> Handle {
        let mut bytes = [0; SIZE];
        bytes[0] = VERSION;
        bytes[1..5].copy_from_slice(&self.serial.to_le_bytes());
        bytes[5..13].copy_from_slice(&self.number.get().to_le_bytes());
        bytes[13..17].copy_from_slice(&self.place.directory.to_le_bytes());
        bytes[17..21].copy_from_slice(&self.place.slot.to_le_bytes());
        bytes[21..23].copy_from_slice(&self.created.date.to_le_bytes());
        bytes[23..25].copy_from_slice(&self.created.time.to_le_bytes());
        bytes[25] = self.created.hundredths;
        Handle::new(&bytes).expect("the size is small enough")
    }

    /// Decodes a handle; `None` if it is not of this base.
    pub(crate) fn decode(handle: &Handle) -> Option<Self> {
        let bytes: &[u8; SIZE] = handle.as_bytes().try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let number = u64::from_le_bytes(std::array::from_fn(|index| bytes[5 + index]));
        (bytes[0] == VERSION).then(|| Self {
            serial: u32_at(1),
            number: InodeNumber::new(number),
            place: EntryLocation { directory: u32_at(13), slot: u32_at(17) },
            created: DosDateTime { date: u16_at(21), time: u16_at(23), hundredths: bytes[25] },
        })
    }

    /// Returns whether an object of this number and creation, found elsewhere than in the handle's place, is the handle's.
    pub(crate) fn is_of(&self, number: InodeNumber, created: DosDateTime) -> bool {
        self.number == number && self.created == created
    }

    /// Returns whether an object in the handle's place is the handle's. One that had no clusters may have another number after a
    /// restart.
    pub(crate) fn is_of_place(&self, first_cluster: u32, created: DosDateTime) -> bool {
        let is_number = first_cluster == 0 || cluster_of(self.number).is_none_or(|number| number == first_cluster);
        self.created == created && is_number
    }
}

/// Returns the handle of a new inode.
pub(crate) fn handle_of<I>(
    volume: &Volume<I>,
    number: InodeNumber,
    place: EntryLocation,
    created: DosDateTime,
) -> Handle {
    HandleParts { serial: volume.serial, number, place, created }.encode()
}

/// Returns the handle of the root directory.
pub(crate) fn root_handle(serial: u32) -> Handle {
    let place = EntryLocation { directory: 0, slot: 0 };
    HandleParts { serial, number: ROOT_NUMBER, place, created: DosDateTime::default() }.encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_have_their_parts() {
        let created = DosDateTime { date: 1000, time: 2000, hundredths: 30 };
        let place = EntryLocation { directory: u32::MAX, slot: 65_535 };
        let parts = HandleParts { serial: 0x1234_5678, number: InodeNumber::new(u64::MAX), place, created };
        assert_eq!(HandleParts::decode(&parts.encode()), Some(parts));
        assert_eq!(HandleParts::decode(&Handle::new(&[0; SIZE]).unwrap()), None);
        assert_eq!(HandleParts::decode(&Handle::new(&[1; 25]).unwrap()), None);
    }
}
