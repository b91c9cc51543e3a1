//! The boot catalog of El Torito: which images a machine can be started from.

use super::fields::{Fields, Malformed};

/// Length of an entry of the catalog in bytes.
pub(crate) const ENTRY_LENGTH: usize = 32;

/// Largest number of images that are read from a catalog.
const IMAGES_MAX: usize = 64;

/// The kind of machine that an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootPlatform {
    /// PCs with a BIOS.
    Bios,
    /// PowerPC.
    PowerPc,
    /// Macintosh.
    Mac,
    /// Machines with UEFI.
    Efi,
    /// Another one, by its number.
    Other(u8),
}

/// The medium that an image is shown as to the program that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootMedium {
    /// None: the image is a program, or a file system on its own.
    NoEmulation,
    /// A diskette of so many KiB.
    Diskette(u16),
    /// A hard disk, with a partition table.
    HardDisk,
    /// Another one, by its number.
    Other(u8),
}

/// An image that a machine can be started from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootImage {
    /// The kind of machine.
    pub platform: BootPlatform,
    /// Whether it can be started from. Others are only listed.
    pub is_bootable: bool,
    /// The medium.
    pub medium: BootMedium,
    /// First sector of 2,048 bytes.
    pub sector: u32,
    /// Number of sectors of 512 bytes that are loaded into memory at first.
    pub load_sectors: u16,
}

impl BootPlatform {
    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Bios,
            1 => Self::PowerPc,
            2 => Self::Mac,
            0xef => Self::Efi,
            number => Self::Other(number),
        }
    }

    /// Returns the platform in lower-case letters and digits.
    pub fn name(self) -> String {
        match self {
            Self::Bios => "bios".to_owned(),
            Self::PowerPc => "powerpc".to_owned(),
            Self::Mac => "mac".to_owned(),
            Self::Efi => "efi".to_owned(),
            Self::Other(number) => format!("platform{number}"),
        }
    }
}

impl BootMedium {
    fn from_number(number: u8) -> Self {
        match number & 0x0f {
            0 => Self::NoEmulation,
            1 => Self::Diskette(1200),
            2 => Self::Diskette(1440),
            3 => Self::Diskette(2880),
            4 => Self::HardDisk,
            number => Self::Other(number),
        }
    }

    /// Returns the medium in words.
    pub fn name(self) -> String {
        match self {
            Self::NoEmulation => "no emulation".to_owned(),
            Self::Diskette(kibibytes) => format!("diskette of {kibibytes} KiB"),
            Self::HardDisk => "hard disk".to_owned(),
            Self::Other(number) => format!("medium {number}"),
        }
    }
}

/// A boot catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BootCatalog {
    pub(crate) images: Vec<BootImage>,
    /// Length of all its entries in bytes.
    pub(crate) length: usize,
}

impl BootCatalog {
    /// Decodes a catalog at the beginning of `bytes`. The entries of sections after the first one that is not valid are left out.
    ///
    /// # Errors
    /// [`Malformed`] without a valid first entry, which validates the others, or without a second one.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let entry = |index: usize| Fields(bytes).bytes(index * ENTRY_LENGTH, ENTRY_LENGTH).map(Fields);
        let validation = entry(0)?;
        let sum = validation
            .0
            .chunks_exact(2)
            .fold(0, |sum: u16, word| sum.wrapping_add(u16::from_le_bytes([word[0], word[1]])));
        if validation.byte(0)? != 1 || validation.bytes(30, 2)? != [0x55, 0xaa] || sum != 0 {
            return Err(Malformed);
        }
        let platform = BootPlatform::from_number(validation.byte(1)?);
        let mut catalog =
            Self { images: vec![image(entry(1)?, platform)?.ok_or(Malformed)?], length: 2 * ENTRY_LENGTH };
        let mut index = 2;
        while let Ok(header) = entry(index) {
            let Some((last, platform, count)) = section(header) else { break };
            index = catalog.add_section(&entry, index + 1, platform, count);
            catalog.length = index * ENTRY_LENGTH;
            if last || catalog.images.len() >= IMAGES_MAX {
                break;
            }
        }
        Ok(catalog)
    }

    /// Adds the images of a section whose entries begin at `index`; returns the index after the last one.
    fn add_section<'a>(
        &mut self,
        entry: &impl Fn(usize) -> Result<Fields<'a>, Malformed>,
        mut index: usize,
        platform: BootPlatform,
        count: u16,
    ) -> usize {
        /// Selection criteria that do not fit into an entry, for the program that selects one.
        const EXTENSION: u8 = 0x44;
        let mut left = count;
        while let Ok(fields) = entry(index) {
            let is_extension = fields.byte(0) == Ok(EXTENSION);
            if !is_extension {
                let Some(left_after) = left.checked_sub(1) else { break };
                let Ok(Some(image)) = image(fields, platform) else { break };
                if self.images.len() >= IMAGES_MAX {
                    break;
                }
                left = left_after;
                self.images.push(image);
            }
            index += 1;
        }
        index
    }
}

/// Decodes the header of a section: whether it is the last, for which machines, and its number of images.
fn section(fields: Fields<'_>) -> Option<(bool, BootPlatform, u16)> {
    let last = match fields.byte(0).ok()? {
        0x90 => false,
        0x91 => true,
        _ => return None,
    };
    Some((last, BootPlatform::from_number(fields.byte(1).ok()?), fields.little16(2).ok()?))
}

/// Decodes the entry of an image; `None` if it is none.
fn image(fields: Fields<'_>, platform: BootPlatform) -> Result<Option<BootImage>, Malformed> {
    let is_bootable = match fields.byte(0)? {
        0x88 => true,
        0x00 => false,
        _ => return Ok(None),
    };
    Ok(Some(BootImage {
        platform,
        is_bootable,
        medium: BootMedium::from_number(fields.byte(1)?),
        sector: fields.little32(8)?,
        load_sectors: fields.little16(6)?,
    }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn validation(platform: u8) -> Vec<u8> {
        let mut entry = vec![0; ENTRY_LENGTH];
        (entry[0], entry[1], entry[30], entry[31]) = (1, platform, 0x55, 0xaa);
        let sum: u16 =
            entry.chunks(2).fold(0, |sum: u16, word| sum.wrapping_add(u16::from_le_bytes([word[0], word[1]])));
        entry[28..30].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
        entry
    }

    fn entry(first: [u8; 4], load_sectors: u16, sector: u32) -> Vec<u8> {
        let mut entry = vec![0; ENTRY_LENGTH];
        entry[..4].copy_from_slice(&first);
        entry[6..8].copy_from_slice(&load_sectors.to_le_bytes());
        entry[8..12].copy_from_slice(&sector.to_le_bytes());
        entry
    }

    #[test]
    fn the_first_image_and_those_of_sections() {
        let bytes = [
            validation(0),
            entry([0x88, 0, 0, 0], 4, 50),
            entry([0x90, 0xef, 1, 0], 0, 0),
            entry([0x88, 0, 0, 0], 0, 60),
            entry([0x44, 0, 0, 0], 0, 0),
            entry([0x91, 2, 1, 0], 0, 0),
            entry([0x00, 2, 0, 0], 1, 70),
            vec![0; 64],
        ]
        .concat();
        let catalog = BootCatalog::parse(&bytes).unwrap();
        let found: Vec<_> = catalog
            .images
            .iter()
            .map(|image| (image.platform, image.medium, image.sector, image.is_bootable))
            .collect();
        assert_eq!(
            found,
            [
                (BootPlatform::Bios, BootMedium::NoEmulation, 50, true),
                (BootPlatform::Efi, BootMedium::NoEmulation, 60, true),
                (BootPlatform::Mac, BootMedium::Diskette(1440), 70, false),
            ]
        );
        assert_eq!(catalog.length, 7 * ENTRY_LENGTH);
        assert_eq!(catalog.images[0].load_sectors, 4);
    }

    #[test]
    fn a_catalog_without_valid_first_entries_is_malformed() {
        let mut bytes = [validation(0), entry([0x88, 0, 0, 0], 4, 50)].concat();
        assert_eq!(BootCatalog::parse(&bytes).unwrap().images.len(), 1);
        assert_eq!(BootCatalog::parse(&bytes[..63]), Err(Malformed));
        bytes[32] = 1;
        assert_eq!(BootCatalog::parse(&bytes), Err(Malformed));
        bytes[32] = 0x88;
        bytes[5] = 1;
        assert_eq!(BootCatalog::parse(&bytes), Err(Malformed));
        assert_eq!(BootCatalog::parse(&[]), Err(Malformed));
    }

    #[test]
    fn the_number_of_images_is_limited() {
        let mut bytes = [validation(0), entry([0x88, 0, 0, 0], 4, 50), entry([0x90, 0, 0xff, 0xff], 0, 0)].concat();
        bytes.extend((0..5000).flat_map(|_| entry([0x88, 0, 0, 0], 4, 50)));
        assert_eq!(BootCatalog::parse(&bytes).unwrap().images.len(), IMAGES_MAX);
    }
}
