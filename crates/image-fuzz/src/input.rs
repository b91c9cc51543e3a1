//! An input: an image in few bytes, and the choices of what is done with it.

use bases::device::MemoryDevice;

/// Bytes of a sector, in which an input counts.
const SECTOR: u64 = 512;
/// Largest size of an image in bytes. The smallest is a sector.
const SIZE_MAX: u64 = 64 << 20;

/// An image, and choices. In bytes: the number of sectors of the image (4, little-endian), the number of sectors of zeros before the
/// contents (2), choices ([`Input::CHOICES`]), and the contents, after which the image has zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    sectors: u32,
    skipped: u16,
    choices: [u8; Input::CHOICES],
    contents: Vec<u8>,
}

impl Input {
    /// Number of bytes of choices.
    pub const CHOICES: usize = 10;
    const HEADER: usize = 6 + Self::CHOICES;

    /// Parses an input; `None` if it is too short. What is larger than an image may be is cut off.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (header, contents) = bytes.split_at_checked(Self::HEADER)?;
        let (sectors, rest) = header.split_first_chunk::<4>()?;
        let (skipped, choices) = rest.split_first_chunk::<2>()?;
        Some(Self {
            sectors: u32::from_le_bytes(*sectors),
            skipped: u16::from_le_bytes(*skipped),
            choices: choices.try_into().ok()?,
            contents: contents.to_vec(),
        })
    }

    /// Returns the input for an image, with the first choices for everything.
    pub fn of_image(image: &[u8]) -> Self {
        let sector = SECTOR as usize;
        let is_zero = |chunk: &&[u8]| chunk.iter().all(|byte| *byte == 0);
        let skipped = image.chunks(sector).take_while(is_zero).count().min(usize::from(u16::MAX));
        let end = image.len() - image.iter().rev().take_while(|byte| **byte == 0).count();
        Self {
            sectors: (image.len() / sector) as u32,
            skipped: skipped as u16,
            choices: [0; Self::CHOICES],
            contents: image.get(skipped * sector..end).unwrap_or_default().to_vec(),
        }
    }

    /// Returns it with other choices.
    pub fn with_choices(self, choices: [u8; Self::CHOICES]) -> Self {
        Self { choices, ..self }
    }

    /// Returns its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = [&self.sectors.to_le_bytes()[..], &self.skipped.to_le_bytes(), &self.choices].concat();
        [header, self.contents.clone()].concat()
    }

    /// Returns the choices.
    pub fn choices(&self) -> [u8; Self::CHOICES] {
        self.choices
    }

    /// Returns a seed that depends on the choices alone, for what is done by chance.
    pub fn seed(&self) -> u64 {
        self.choices.iter().fold(0, |seed, byte| seed << 7 ^ u64::from(*byte))
    }

    /// Returns the image.
    pub fn image(&self) -> MemoryDevice {
        let size = (u64::from(self.sectors) * SECTOR).clamp(SECTOR, SIZE_MAX);
        let device = MemoryDevice::new(size);
        let start = u64::from(self.skipped) * SECTOR;
        let length = (self.contents.len() as u64).min(size.saturating_sub(start)) as usize;
        if let Some(contents) = self.contents.get(..length).filter(|contents| !contents.is_empty()) {
            bases::device::Device::write_at(&device, start, contents).expect("the range ends within the device");
        }
        device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_survive() {
        let mut image = vec![0; 4096];
        image[1030..1033].copy_from_slice(b"xyz");
        let input = Input::of_image(&image);
        assert_eq!(input.image().contents(), image);
        assert_eq!(Input::parse(&input.to_bytes()), Some(input.clone()));
        assert_eq!(input.to_bytes().len(), Input::HEADER + 9);
        assert_eq!(Input::parse(&[0; 15]), None);
        assert_eq!(Input::of_image(&[0; 512]).image().contents(), [0; 512]);
    }
}
