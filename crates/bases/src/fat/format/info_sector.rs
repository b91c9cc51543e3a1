//! The information sector of FAT32: how many clusters are free, and where to look for one.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::boot_sector::BOOT_SECTOR_SIZE;

const LEAD_SIGNATURE: [u8; 4] = *b"RRaA";
const STRUCTURE_SIGNATURE: [u8; 4] = *b"rrAa";
const TRAIL_SIGNATURE: [u8; 4] = [0, 0, 0x55, 0xAA];
/// Value of a count or number that is not known.
const UNKNOWN: u32 = u32::MAX;

/// The sector as it is stored.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInfo {
    lead_signature: [u8; 4],
    reserved: [u8; 480],
    structure_signature: [u8; 4],
    free_clusters: U32,
    next_free: U32,
    reserved_2: [u8; 12],
    trail_signature: [u8; 4],
}

const _: () = assert!(size_of::<RawInfo>() == BOOT_SECTOR_SIZE);

/// Hints that the information sector holds. They may be wrong: whatever relies on them checks them first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InfoSector {
    /// Number of free clusters, if known.
    pub free_clusters: Option<u32>,
    /// Cluster from which to look for a free one, if known.
    pub next_free: Option<u32>,
}

impl InfoSector {
    /// Decodes a sector; `None` unless it has all three signatures.
    pub fn decode(sector: &[u8; BOOT_SECTOR_SIZE]) -> Option<Self> {
        let raw = RawInfo::ref_from_bytes(sector).ok()?;
        let is_valid = raw.lead_signature == LEAD_SIGNATURE
            && raw.structure_signature == STRUCTURE_SIGNATURE
            && raw.trail_signature == TRAIL_SIGNATURE;
        let known = |value: U32| Some(value.get()).filter(|&value| value != UNKNOWN);
        is_valid.then(|| Self { free_clusters: known(raw.free_clusters), next_free: known(raw.next_free) })
    }

    /// Returns the sector.
    pub fn encode(&self) -> [u8; BOOT_SECTOR_SIZE] {
        let raw = RawInfo {
            lead_signature: LEAD_SIGNATURE,
            reserved: [0; 480],
            structure_signature: STRUCTURE_SIGNATURE,
            free_clusters: self.free_clusters.unwrap_or(UNKNOWN).into(),
            next_free: self.next_free.unwrap_or(UNKNOWN).into(),
            reserved_2: [0; 12],
            trail_signature: TRAIL_SIGNATURE,
        };
        zerocopy::transmute!(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_survive_encoding() {
        for (free_clusters, next_free) in [(None, None), (Some(0), Some(2)), (Some(7), None)] {
            let info = InfoSector { free_clusters, next_free };
            assert_eq!(InfoSector::decode(&info.encode()), Some(info));
        }
        let sector = InfoSector { free_clusters: Some(0x0102_0304), next_free: Some(9) }.encode();
        assert_eq!(sector[488..496], [4, 3, 2, 1, 9, 0, 0, 0]);
    }

    #[test]
    fn all_signatures_are_checked() {
        for offset in [0, 484, 511] {
            let mut sector = InfoSector::default().encode();
            sector[offset] ^= 1;
            assert_eq!(InfoSector::decode(&sector), None);
        }
    }
}
