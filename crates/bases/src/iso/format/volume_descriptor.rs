//! Volume descriptors: the sectors from the sixteenth of a session that say which directory trees it has.

use vnode::Timestamp;

use super::directory_record::DirectoryRecord;
use super::fields::{Fields, Malformed};
use super::path_table::PathTableLocation;
use super::text::{self, CharacterSet};
use super::{SECTOR_SIZE, time};

/// Identifier of all descriptors of the standard.
const STANDARD: &[u8] = b"CD001";
/// Identifier, at another offset, of those of the format before the standard.
const HIGH_SIERRA: &[u8] = b"CDROM";
/// Identifiers of descriptors that say that a UDF volume is there, too or instead.
const UDF: [&[u8]; 3] = [b"BEA01", b"NSR02", b"NSR03"];

/// What a boot record says it is for if it is that of El Torito.
const EL_TORITO: &[u8] = b"EL TORITO SPECIFICATION";

/// Smallest logical block of a volume, in bytes. The largest is a sector.
const BLOCK_SIZE_MIN: u32 = 512;

/// A volume descriptor.
#[derive(Clone, Debug)]
pub(crate) enum VolumeDescriptor {
    /// A boot record of El Torito: the sector of its catalog.
    BootCatalog(u32),
    /// The primary descriptor.
    Primary(Box<VolumeDescription>),
    /// A supplementary or enhanced descriptor: the same volume with other names.
    Supplementary(Box<VolumeDescription>),
    /// A descriptor of another kind, such as a partition or another boot record.
    Other,
    /// The last descriptor.
    Terminator,
}

/// What else a sector may be where a descriptor is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForeignDescriptor {
    /// A descriptor of High Sierra, the format before ISO 9660.
    HighSierra,
    /// A descriptor of UDF.
    Udf,
    /// None that is known.
    None,
}

/// The first extent of a root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootDirectory {
    /// First logical block of its data.
    pub(crate) block: u32,
    /// Length in bytes.
    pub(crate) length: u32,
}

/// Contents of a primary, supplementary or enhanced descriptor.
#[derive(Clone, Debug)]
pub(crate) struct VolumeDescription {
    /// Level of Joliet, from 1 to 3, if the names are those of Joliet.
    pub(crate) joliet_level: Option<u8>,
    /// Whether this is an enhanced descriptor (ISO 9660:1999), whose names have up to 207 bytes and no rules.
    pub(crate) is_enhanced: bool,
    pub(crate) texts: VolumeTexts,
    /// Number of logical blocks of the volume.
    pub(crate) block_count: u32,
    /// Number of volumes of the set.
    pub(crate) set_size: u16,
    /// Number of this volume in the set, from 1.
    pub(crate) sequence_number: u16,
    /// Bytes of a logical block: 512, 1,024 or 2,048.
    pub(crate) block_size: u32,
    pub(crate) root: RootDirectory,
    pub(crate) path_table: PathTableLocation,
    pub(crate) times: VolumeTimes,
}

/// Texts of a volume, without padding; empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeTexts {
    /// System that may use the system area.
    pub system: String,
    /// Name of the volume.
    pub volume: String,
    /// Name of the set of volumes.
    pub volume_set: String,
    /// Who published the volume; `_` and the name of a file in the root directory for more than a line, as below.
    pub publisher: String,
    /// Who prepared the data.
    pub preparer: String,
    /// Application that wrote the data, or how they are to be used.
    pub application: String,
    /// File in the root directory with the copyright statement.
    pub copyright_file: String,
    /// File in the root directory with an abstract.
    pub abstract_file: String,
    /// File in the root directory with bibliographic records.
    pub bibliographic_file: String,
}

/// Times of a volume; `None` where they are not specified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeTimes {
    /// Creation.
    pub created: Option<Timestamp>,
    /// Last modification.
    pub modified: Option<Timestamp>,
    /// Time from which the data are obsolete.
    pub expires: Option<Timestamp>,
    /// Time from which the data may be used.
    pub effective: Option<Timestamp>,
}

impl VolumeDescriptor {
    /// Decodes a sector; `None` if it is no volume descriptor of ISO 9660.
    ///
    /// # Errors
    /// [`Malformed`] for a volume that cannot be read: its blocks have an impossible size, or it has no root directory.
    pub(crate) fn parse(sector: &[u8]) -> Result<Option<Self>, Malformed> {
        let fields = Fields(sector);
        if fields.bytes(0, SECTOR_SIZE as usize).is_err() || fields.bytes(1, 5) != Ok(STANDARD) {
            return Ok(None);
        }
        Ok(Some(match (fields.byte(0)?, fields.byte(6)?) {
            (0, _) if fields.bytes(7, EL_TORITO.len())? == EL_TORITO => Self::BootCatalog(fields.little32(71)?),
            (1, _) => Self::Primary(Box::new(VolumeDescription::parse(fields, false)?)),
            (2, version) => Self::Supplementary(Box::new(VolumeDescription::parse(fields, version == 2)?)),
            (255, _) => Self::Terminator,
            _ => Self::Other,
        }))
    }
}

/// Returns what a sector without a descriptor of ISO 9660 has instead.
pub(crate) fn foreign(sector: &[u8]) -> ForeignDescriptor {
    let fields = Fields(sector);
    if fields.bytes(9, 5) == Ok(HIGH_SIERRA) {
        ForeignDescriptor::HighSierra
    } else if fields.bytes(1, 5).is_ok_and(|identifier| UDF.contains(&identifier)) {
        ForeignDescriptor::Udf
    } else {
        ForeignDescriptor::None
    }
}

impl VolumeDescription {
    fn parse(fields: Fields<'_>, is_enhanced: bool) -> Result<Self, Malformed> {
        let joliet_level = if fields.byte(0)? == 2 { joliet_level(fields.bytes(88, 32)?) } else { None };
        let character_set = if joliet_level.is_some() { CharacterSet::Utf16 } else { CharacterSet::Bytes };
        let block_size = u32::from(fields.both16(128)?);
        let root =
            DirectoryRecord::parse(fields.bytes(156, 34)?)?.filter(DirectoryRecord::is_directory).ok_or(Malformed)?;
        if !block_size.is_power_of_two() || !(BLOCK_SIZE_MIN..=SECTOR_SIZE).contains(&block_size) {
            return Err(Malformed);
        }
        Ok(Self {
            joliet_level,
            is_enhanced: is_enhanced && joliet_level.is_none(),
            texts: VolumeTexts::parse(fields, character_set)?,
            block_count: fields.both32(80)?,
            set_size: fields.both16(120)?,
            sequence_number: fields.both16(124)?,
            block_size,
            root: RootDirectory { block: root.data_block()?, length: root.data_length },
            path_table: PathTableLocation { block: fields.little32(140)?, length: fields.both32(132)? },
            times: VolumeTimes::parse(fields)?,
        })
    }
}

impl VolumeTexts {
    fn parse(fields: Fields<'_>, character_set: CharacterSet) -> Result<Self, Malformed> {
        let text = |offset, length| Ok(text::identifier(fields.bytes(offset, length)?, character_set));
        Ok(Self {
            system: text(8, 32)?,
            volume: text(40, 32)?,
            volume_set: text(190, 128)?,
            publisher: text(318, 128)?,
            preparer: text(446, 128)?,
            application: text(574, 128)?,
            copyright_file: text(702, 37)?,
            abstract_file: text(739, 37)?,
            bibliographic_file: text(776, 37)?,
        })
    }
}

impl VolumeTimes {
    fn parse(fields: Fields<'_>) -> Result<Self, Malformed> {
        let at = |offset| Ok(time::long(fields.bytes(offset, time::LONG_LENGTH)?));
        Ok(Self { created: at(813)?, modified: at(830)?, expires: at(847)?, effective: at(864)? })
    }
}

/// Returns the level of Joliet that the escape sequences of a supplementary descriptor announce.
fn joliet_level(escapes: &[u8]) -> Option<u8> {
    let levels: [(&[u8], u8); 3] = [(b"%/@", 1), (b"%/C", 2), (b"%/E", 3)];
    levels.into_iter().find(|(escape, _)| escapes.starts_with(escape)).map(|(_, level)| level)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::directory_record::tests::record;
    use super::*;

    /// Returns a descriptor of this type and version, with a root directory in block 20.
    pub(crate) fn descriptor(kind: u8, version: u8) -> Vec<u8> {
        let mut sector = vec![0; 2048];
        sector[0] = kind;
        sector[1..6].copy_from_slice(STANDARD);
        sector[6] = version;
        sector[40..46].copy_from_slice(b"VOLUME");
        sector[80..84].copy_from_slice(&100u32.to_le_bytes());
        sector[128..130].copy_from_slice(&2048u16.to_le_bytes());
        sector[156..190].copy_from_slice(&record(&[0], 20, 2048, 2));
        sector
    }

    #[test]
    fn a_primary_descriptor_has_texts_and_a_root() {
        let Ok(Some(VolumeDescriptor::Primary(volume))) = VolumeDescriptor::parse(&descriptor(1, 1)) else { panic!() };
        assert_eq!((volume.texts.volume.as_str(), volume.block_count, volume.block_size), ("VOLUME", 100, 2048));
        assert_eq!(volume.root, RootDirectory { block: 20, length: 2048 });
        assert_eq!((volume.joliet_level, volume.is_enhanced), (None, false));
    }

    #[test]
    fn escape_sequences_announce_joliet() {
        for (escape, level) in [(b"%/@", Some(1)), (b"%/C", Some(2)), (b"%/E", Some(3)), (b"%/G", None)] {
            let mut sector = descriptor(2, 1);
            sector[88..91].copy_from_slice(escape);
            let Ok(Some(VolumeDescriptor::Supplementary(volume))) = VolumeDescriptor::parse(&sector) else { panic!() };
            assert_eq!((volume.joliet_level, volume.is_enhanced), (level, false));
        }
        let Ok(Some(VolumeDescriptor::Supplementary(volume))) = VolumeDescriptor::parse(&descriptor(2, 2)) else {
            panic!()
        };
        assert!(volume.is_enhanced);
    }

    #[test]
    fn boot_records_name_the_catalog() {
        let mut sector = descriptor(0, 1);
        assert!(matches!(VolumeDescriptor::parse(&sector), Ok(Some(VolumeDescriptor::Other))));
        sector[7..30].copy_from_slice(EL_TORITO);
        sector[71..75].copy_from_slice(&33u32.to_le_bytes());
        assert!(matches!(VolumeDescriptor::parse(&sector), Ok(Some(VolumeDescriptor::BootCatalog(33)))));
        assert!(matches!(VolumeDescriptor::parse(&descriptor(255, 1)), Ok(Some(VolumeDescriptor::Terminator))));
    }

    #[test]
    fn impossible_volumes_are_malformed() {
        for (offset, value) in [(129, 0), (129, 16), (128, 1), (156, 0), (156, 200), (181, 0)] {
            let mut sector = descriptor(1, 1);
            sector[offset] = value;
            assert_eq!(VolumeDescriptor::parse(&sector).err(), Some(Malformed), "{value} at {offset}");
        }
    }

    #[test]
    fn other_sectors_are_no_descriptors() {
        assert!(VolumeDescriptor::parse(&[0; 2048]).unwrap().is_none());
        assert!(VolumeDescriptor::parse(&descriptor(1, 1)[..2047]).unwrap().is_none());
        let mut sector = vec![0; 2048];
        assert_eq!(foreign(&sector), ForeignDescriptor::None);
        sector[1..6].copy_from_slice(b"NSR03");
        assert_eq!(foreign(&sector), ForeignDescriptor::Udf);
        sector[9..14].copy_from_slice(HIGH_SIERRA);
        assert_eq!(foreign(&sector), ForeignDescriptor::HighSierra);
    }
}
