//! The boot sector: the parameters of the file system, between two parts of boot code.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute_mut, transmute_ref};

/// Size of what the format defines of a boot sector in bytes, whatever the size of sectors. The signature ends it.
pub const BOOT_SECTOR_SIZE: usize = 512;

/// The last two bytes of [`BOOT_SECTOR_SIZE`].
const SIGNATURE: [u8; 2] = [0x55, 0xAA];
/// Value of the signature byte before a serial number, a label and a type.
const EXTENDED: u8 = 0x29;
/// Value of the signature byte before a serial number only.
const EXTENDED_SERIAL_ONLY: u8 = 0x28;

/// The first 36 bytes, common to all widths.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCommon {
    jump: [u8; 3],
    oem_name: [u8; 8],
    bytes_per_sector: U16,
    sectors_per_cluster: u8,
    reserved_sectors: U16,
    fats: u8,
    root_entries: U16,
    total_sectors_16: U16,
    media: u8,
    fat_sectors_16: U16,
    sectors_per_track: U16,
    heads: U16,
    hidden_sectors: U32,
    total_sectors_32: U32,
}

/// The fields of FAT32, which follow the common ones.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExtended {
    fat_sectors_32: U32,
    mirroring: U16,
    version: U16,
    root_cluster: U32,
    info_sector: U16,
    backup_sector: U16,
    reserved: [u8; 12],
}

/// The fields that follow those of FAT32, or the common ones of the other widths.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawIdentity {
    drive: u8,
    state: u8,
    signature: u8,
    serial: U32,
    label: [u8; 11],
    type_name: [u8; 8],
}

/// A sector without the fields of FAT32.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSector {
    common: RawCommon,
    identity: RawIdentity,
    code: [u8; 448],
    signature: [u8; 2],
}

/// A sector with the fields of FAT32.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExtendedSector {
    common: RawCommon,
    extended: RawExtended,
    identity: RawIdentity,
    code: [u8; 420],
    signature: [u8; 2],
}

const _: () = assert!(size_of::<RawSector>() == BOOT_SECTOR_SIZE && size_of::<RawExtendedSector>() == BOOT_SECTOR_SIZE);

/// The decoded fields of a boot sector, as they are stored: none is checked. [`super::Geometry`] is derived from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootSector {
    /// Jump to the boot code: 0xEB or 0xE9 and a displacement.
    pub jump: [u8; 3],
    /// Name of the system that made the file system.
    pub oem_name: [u8; 8],
    /// Bytes per sector.
    pub bytes_per_sector: u16,
    /// Sectors per cluster.
    pub sectors_per_cluster: u8,
    /// Sectors before the first table, including this one.
    pub reserved_sectors: u16,
    /// Number of file allocation tables.
    pub fats: u8,
    /// Entries of the root directory; 0 on FAT32.
    pub root_entries: u16,
    /// Sectors of the file system: the field of 16 bits, or if that is 0, the one of 32.
    pub total_sectors: u32,
    /// Media byte: 0xF8 of a fixed disk, 0xF0 of a removable one, 0xF9–0xFF of old floppies.
    pub media: u8,
    /// Sectors of each file allocation table.
    pub fat_sectors: u32,
    /// Sectors per track, for firmware that addresses cylinders.
    pub sectors_per_track: u16,
    /// Heads, for firmware that addresses cylinders.
    pub heads: u16,
    /// Sectors of the disk before this partition.
    pub hidden_sectors: u32,
    /// The fields of FAT32. Present if the old field for the size of a table is 0.
    pub extended: Option<ExtendedFields>,
    /// Drive number for the firmware: 0x80 is the first fixed disk. 0 if the sector has none.
    pub drive: u8,
    /// State in which the file system was left; without flags if the sector has none, see [`BootSector::has_state`].
    pub state: StateFlags,
    /// Serial number and label, if the sector has them.
    pub identity: Option<VolumeIdentity>,
    /// Whether the sector ends with 0x55 0xAA.
    pub has_signature: bool,
}

/// Fields that only FAT32 has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedFields {
    /// Which table is in use.
    pub mirroring: MirroringFlags,
    /// Version of the format, high byte major: 0 is the only one.
    pub version: u16,
    /// First cluster of the root directory.
    pub root_cluster: u32,
    /// Sector of the free counts; 0 or 0xFFFF for none.
    pub info_sector: u16,
    /// Sector of the copy of the boot sector; 0 or 0xFFFF for none.
    pub backup_sector: u16,
}

/// Which of the tables is in use: all, each a copy of the first, or one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirroringFlags(pub u16);

impl MirroringFlags {
    /// Returns the only table in use, counted from 0, if they are not copies of each other.
    pub const fn active(self) -> Option<u8> {
        if self.0 & 0x80 != 0 { Some((self.0 & 0x0F) as u8) } else { None }
    }
}

/// State in which a file system was left, as a byte of the boot sector holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateFlags(pub u8);

impl StateFlags {
    /// It was not unmounted.
    pub const DIRTY: u8 = 0x01;
    /// The disk had errors, and its surface should be tested.
    pub const ERROR: u8 = 0x02;

    /// Returns whether the file system was not unmounted.
    pub const fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    /// Returns whether the disk had errors.
    pub const fn had_errors(self) -> bool {
        self.0 & Self::ERROR != 0
    }
}

/// What identifies a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeIdentity {
    /// Serial number.
    pub serial: u32,
    /// Label, and name of the type. Absent in an older form of the sector.
    pub label: Option<([u8; 11], [u8; 8])>,
}

impl VolumeIdentity {
    /// Returns the serial number as it is shown: `1234-ABCD`.
    pub fn serial_text(&self) -> String {
        format!("{:04X}-{:04X}", self.serial >> 16, self.serial & 0xFFFF)
    }
}

/// Returns whether a media byte is one of those that the format defines.
pub const fn is_valid_media(media: u8) -> bool {
    media == 0xF0 || media >= 0xF8
}

impl BootSector {
    /// Decodes a sector.
    pub fn decode(sector: &[u8; BOOT_SECTOR_SIZE]) -> Self {
        let old: &RawSector = transmute_ref!(sector);
        let new: &RawExtendedSector = transmute_ref!(sector);
        let common = &old.common;
        let is_extended = common.fat_sectors_16.get() == 0;
        let identity = if is_extended { &new.identity } else { &old.identity };
        let has_state = is_extended || decode_identity(identity).is_some();
        let total_sectors = match common.total_sectors_16.get() {
            0 => common.total_sectors_32.get(),
            sectors => sectors.into(),
        };
        let fat_sectors = match common.fat_sectors_16.get() {
            0 => new.extended.fat_sectors_32.get(),
            sectors => sectors.into(),
        };
        Self {
            jump: common.jump,
            oem_name: common.oem_name,
            bytes_per_sector: common.bytes_per_sector.get(),
            sectors_per_cluster: common.sectors_per_cluster,
            reserved_sectors: common.reserved_sectors.get(),
            fats: common.fats,
            root_entries: common.root_entries.get(),
            total_sectors,
            media: common.media,
            fat_sectors,
            sectors_per_track: common.sectors_per_track.get(),
            heads: common.heads.get(),
            hidden_sectors: common.hidden_sectors.get(),
            extended: is_extended.then(|| decode_extended(&new.extended)),
            drive: if has_state { identity.drive } else { 0 },
            state: StateFlags(if has_state { identity.state } else { 0 }),
            identity: decode_identity(identity),
            has_signature: old.signature == SIGNATURE,
        }
    }

    /// Encodes the fields into a sector, whose boot code stays as it is.
    pub fn encode(&self, sector: &mut [u8; BOOT_SECTOR_SIZE]) {
        let small = |sectors: u32| u16::try_from(sectors).unwrap_or(0);
        let is_extended = self.extended.is_some();
        let total_sectors_16 = if is_extended { 0 } else { small(self.total_sectors) };
        let common = RawCommon {
            jump: self.jump,
            oem_name: self.oem_name,
            bytes_per_sector: self.bytes_per_sector.into(),
            sectors_per_cluster: self.sectors_per_cluster,
            reserved_sectors: self.reserved_sectors.into(),
            fats: self.fats,
            root_entries: self.root_entries.into(),
            total_sectors_16: total_sectors_16.into(),
            media: self.media,
            fat_sectors_16: if is_extended { 0 } else { small(self.fat_sectors) }.into(),
            sectors_per_track: self.sectors_per_track.into(),
            heads: self.heads.into(),
            hidden_sectors: self.hidden_sectors.into(),
            total_sectors_32: if total_sectors_16 == 0 { self.total_sectors } else { 0 }.into(),
        };
        if let Some(fields) = &self.extended {
            let raw: &mut RawExtendedSector = transmute_mut!(sector);
            (raw.common, raw.extended) = (common, encode_extended(fields, self.fat_sectors));
            encode_identity(self, &mut raw.identity);
        } else {
            let raw: &mut RawSector = transmute_mut!(sector);
            raw.common = common;
            encode_identity(self, &mut raw.identity);
        }
        if self.has_signature {
            let raw: &mut RawSector = transmute_mut!(sector);
            raw.signature = SIGNATURE;
        }
    }

    /// Returns whether the sector has the drive number and the state: those before the serial number, and all of FAT32. On older
    /// floppies, boot code begins in their place.
    pub fn has_state(&self) -> bool {
        self.extended.is_some() || self.identity.is_some()
    }

    /// Sets the state byte of an encoded sector, and nothing else. Does nothing if it has none.
    pub fn set_state(sector: &mut [u8; BOOT_SECTOR_SIZE], state: StateFlags) {
        let decoded = Self::decode(sector);
        if decoded.extended.is_some() {
            let raw: &mut RawExtendedSector = transmute_mut!(sector);
            raw.identity.state = state.0;
        } else if decoded.has_state() {
            let raw: &mut RawSector = transmute_mut!(sector);
            raw.identity.state = state.0;
        }
    }

    /// Returns the label of the boot sector, if it has one.
    pub fn label(&self) -> Option<[u8; 11]> {
        self.identity.and_then(|identity| identity.label).map(|(label, _)| label)
    }
}

fn decode_extended(raw: &RawExtended) -> ExtendedFields {
    ExtendedFields {
        mirroring: MirroringFlags(raw.mirroring.get()),
        version: raw.version.get(),
        root_cluster: raw.root_cluster.get(),
        info_sector: raw.info_sector.get(),
        backup_sector: raw.backup_sector.get(),
    }
}

fn encode_extended(fields: &ExtendedFields, fat_sectors: u32) -> RawExtended {
    RawExtended {
        fat_sectors_32: fat_sectors.into(),
        mirroring: fields.mirroring.0.into(),
        version: fields.version.into(),
        root_cluster: fields.root_cluster.into(),
        info_sector: fields.info_sector.into(),
        backup_sector: fields.backup_sector.into(),
        reserved: [0; 12],
    }
}

fn decode_identity(raw: &RawIdentity) -> Option<VolumeIdentity> {
    let serial = raw.serial.get();
    match raw.signature {
        EXTENDED => Some(VolumeIdentity { serial, label: Some((raw.label, raw.type_name)) }),
        EXTENDED_SERIAL_ONLY => Some(VolumeIdentity { serial, label: None }),
        _ => None,
    }
}

/// Encodes the drive, the state and, if there is one, the identity. Where there is none, boot code may be.
fn encode_identity(boot: &BootSector, raw: &mut RawIdentity) {
    if !boot.has_state() {
        return;
    }
    raw.drive = boot.drive;
    raw.state = boot.state.0;
    let Some(identity) = boot.identity else { return };
    raw.serial = identity.serial.into();
    raw.signature = EXTENDED_SERIAL_ONLY;
    if let Some((label, type_name)) = identity.label {
        (raw.label, raw.type_name) = (label, type_name);
        raw.signature = EXTENDED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fat16() -> BootSector {
        BootSector {
            jump: [0xEB, 0x3C, 0x90],
            oem_name: *b"mkfs.fat",
            bytes_per_sector: 512,
            sectors_per_cluster: 4,
            reserved_sectors: 1,
            fats: 2,
            root_entries: 512,
            total_sectors: 40_000,
            media: 0xF8,
            fat_sectors: 39,
            sectors_per_track: 32,
            heads: 64,
            hidden_sectors: 7,
            extended: None,
            drive: 0x80,
            state: StateFlags(0),
            identity: Some(VolumeIdentity { serial: 0x1234_ABCD, label: Some((*b"A LABEL    ", *b"FAT16   ")) }),
            has_signature: true,
        }
    }

    fn fat32() -> BootSector {
        let mirroring = MirroringFlags(0x81);
        let extended = ExtendedFields { mirroring, version: 0, root_cluster: 2, info_sector: 1, backup_sector: 6 };
        BootSector { extended: Some(extended), root_entries: 0, fat_sectors: 70_000, total_sectors: 1 << 31, ..fat16() }
    }

    #[test]
    fn fields_survive_encoding() {
        for boot in [fat16(), fat32(), BootSector { total_sectors: 65_536, ..fat16() }] {
            let mut sector = [0; BOOT_SECTOR_SIZE];
            boot.encode(&mut sector);
            assert_eq!(BootSector::decode(&sector), boot);
        }
        assert_eq!(fat32().extended.unwrap().mirroring.active(), Some(1));
        assert_eq!(fat16().identity.unwrap().serial_text(), "1234-ABCD");
    }

    #[test]
    fn fields_are_at_their_offsets() {
        let mut sector = [0; BOOT_SECTOR_SIZE];
        fat32().encode(&mut sector);
        assert_eq!(sector[11..14], [0, 2, 4]);
        assert_eq!(sector[36..40], 70_000_u32.to_le_bytes());
        assert_eq!((sector[44], sector[48], sector[50], sector[66]), (2, 1, 6, 0x29));
        assert_eq!(&sector[71..82], b"A LABEL    ");
        assert_eq!(sector[510..], [0x55, 0xAA]);
        fat16().encode(&mut sector);
        assert_eq!((sector[22], sector[38]), (39, 0x29));
        assert_eq!(&sector[43..54], b"A LABEL    ");
    }

    #[test]
    fn state_is_set_alone() {
        for boot in [fat16(), fat32()] {
            let mut sector = [0x77; BOOT_SECTOR_SIZE];
            boot.encode(&mut sector);
            let before = sector;
            BootSector::set_state(&mut sector, StateFlags(StateFlags::DIRTY));
            assert!(BootSector::decode(&sector).state.is_dirty());
            assert_eq!(before.iter().zip(&sector).filter(|(old, new)| old != new).count(), 1);
        }
    }

    #[test]
    fn boot_code_stays_where_there_is_no_identity() {
        let mut sector = [0x77; BOOT_SECTOR_SIZE];
        BootSector { identity: None, ..fat16() }.encode(&mut sector);
        BootSector::set_state(&mut sector, StateFlags(StateFlags::DIRTY));
        assert!(sector[36..510].iter().all(|&byte| byte == 0x77));
        let decoded = BootSector::decode(&sector);
        assert_eq!((decoded.identity, decoded.drive, decoded.state), (None, 0, StateFlags(0)));
        assert!(!decoded.has_state());
        let mut sector = [0x77; BOOT_SECTOR_SIZE];
        BootSector { identity: None, ..fat32() }.encode(&mut sector);
        BootSector::set_state(&mut sector, StateFlags(StateFlags::DIRTY));
        assert!(BootSector::decode(&sector).state.is_dirty(), "FAT32 has a state in any case");
    }

    #[test]
    fn only_the_media_bytes_of_the_format_are_valid() {
        let valid: Vec<u8> = (0..=255).filter(|&media| is_valid_media(media)).collect();
        assert_eq!(valid, [0xF0, 0xF8, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF]);
    }
}
