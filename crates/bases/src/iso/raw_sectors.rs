//! Images of whole CD sectors, as ripping programs write them: a device that shows only the user data in them.

use std::sync::Arc;

use vnode::{Errno, Result, zeros};

use super::format::SECTOR_SIZE;
use crate::device::{Device, DeviceRef, check_range};

/// First bytes of a sector that is recorded with its synchronization pattern.
const SYNCHRONIZATION: [u8; 12] = [0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0];
/// Offset of the byte with the mode of the sector, after the pattern and the address.
const MODE_OFFSET: usize = 15;
/// Length of pattern, address and mode: what precedes everything else.
const HEADER_LENGTH: usize = 16;
/// Length of the subheader of mode 2, and the offset in it of the byte with the form.
const SUBHEADER_LENGTH: usize = 8;
const SUBMODE_OFFSET: usize = 2;
/// In that byte: the sector has form 2, whose data have no error correction and another length.
const FORM_2: u8 = 0x20;

/// Number of sectors that are read at a time.
const SECTORS_AT_ONCE: usize = 64;

/// Identifier of a volume descriptor, and its offset in one.
const DESCRIPTOR: (usize, &[u8]) = (1, b"CD001");
/// Number of the sector with the first volume descriptor.
const DESCRIPTOR_SECTOR: u64 = 16;

/// How sectors are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectorLayout {
    /// Bytes of a sector in the image.
    size: u64,
    /// Whether each begins with the synchronization pattern, which the mode follows.
    has_header: bool,
}

/// All layouts: with and without subchannel, and without the header.
const LAYOUTS: [SectorLayout; 3] = [
    SectorLayout { size: 2352, has_header: true },
    SectorLayout { size: 2448, has_header: true },
    SectorLayout { size: 2336, has_header: false },
];

/// An image of whole sectors, as a device of their user data: 2,048 bytes of each.
pub(crate) struct RawSectors {
    device: DeviceRef,
    layout: SectorLayout,
}

/// Returns whether the first volume descriptor of an image is where it is in one of user data.
///
/// # Errors
/// Those of the device.
pub(crate) fn has_descriptor(device: &dyn Device) -> Result<bool> {
    let offset = DESCRIPTOR_SECTOR * u64::from(SECTOR_SIZE) + DESCRIPTOR.0 as u64;
    let mut identifier = [0; DESCRIPTOR.1.len()];
    if check_range(device.size(), offset, identifier.len() as u64).is_err() {
        return Ok(false);
    }
    device.read_at(offset, &mut identifier)?;
    Ok(identifier == DESCRIPTOR.1)
}

/// Returns a device of the user data of an image: the image itself, unless it consists of whole sectors.
///
/// # Errors
/// Those of the device.
pub(crate) fn user_data(device: DeviceRef) -> Result<DeviceRef> {
    if has_descriptor(&*device)? {
        return Ok(device);
    }
    for layout in LAYOUTS {
        let raw = RawSectors { device: Arc::clone(&device), layout };
        // A sector of another mode is an error there, and shows that the layout is another one.
        if matches!(has_descriptor(&raw), Ok(true)) {
            return Ok(Arc::new(raw));
        }
    }
    Ok(device)
}

/// Returns the size of a sector in a device of [`user_data`], if that reads whole sectors of a device of this size.
pub(crate) fn sector_size(user_data: u64, device: u64) -> Option<u64> {
    let layouts = LAYOUTS.into_iter().map(|layout| layout.size);
    layouts.filter(|_| user_data != device).find(|size| device / size * u64::from(SECTOR_SIZE) == user_data)
}

impl RawSectors {
    /// Returns the user data of one sector.
    fn data_of<'a>(&self, sector: &'a [u8]) -> Result<&'a [u8]> {
        let subheader = if self.layout.has_header {
            if !sector.starts_with(&SYNCHRONIZATION) {
                return Err(Errno::EIO);
            }
            match sector.get(MODE_OFFSET) {
                Some(1) => None,
                Some(2) => Some(HEADER_LENGTH),
                _ => return Err(Errno::EIO),
            }
        } else {
            Some(0)
        };
        let offset = match subheader {
            None => HEADER_LENGTH,
            Some(at) if sector.get(at + SUBMODE_OFFSET).is_some_and(|submode| submode & FORM_2 == 0) => {
                at + SUBHEADER_LENGTH
            }
            // Audio and video: no file system is recorded there, and what a reader expects is not defined.
            Some(_) => return Err(Errno::EIO),
        };
        sector.get(offset..offset + SECTOR_SIZE as usize).ok_or(Errno::EIO)
    }
}

impl Device for RawSectors {
    fn size(&self) -> u64 {
        self.device.size() / self.layout.size * u64::from(SECTOR_SIZE)
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_range(self.size(), offset, buffer.len() as u64)?;
        let sector_size = u64::from(SECTOR_SIZE);
        let mut sector = offset / sector_size;
        let mut skipped = (offset % sector_size) as usize;
        let mut rest = buffer;
        while !rest.is_empty() {
            let count = (skipped + rest.len()).div_ceil(SECTOR_SIZE as usize).min(SECTORS_AT_ONCE);
            let mut raw = zeros(count * self.layout.size as usize)?;
            self.device.read_at(sector * self.layout.size, &mut raw)?;
            for sector in raw.chunks_exact(self.layout.size as usize) {
                let data = self.data_of(sector)?.get(skipped..).ok_or(Errno::EIO)?;
                let length = data.len().min(rest.len());
                let (part, after) = rest.split_at_mut(length);
                part.copy_from_slice(&data[..length]);
                (rest, skipped) = (after, 0);
            }
            sector += count as u64;
        }
        Ok(())
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Errno::EROFS)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn prefetch(&self, offset: u64, length: u64) {
        let in_image = |offset: u64| (offset / u64::from(SECTOR_SIZE)).saturating_mul(self.layout.size);
        let start = in_image(offset);
        self.device.prefetch(start, in_image(offset.saturating_add(length)).saturating_sub(start));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::device_of;
    use super::*;

    const SECTORS: usize = 200;

    /// Returns the user data: a descriptor, and bytes that differ from sector to sector.
    fn plain() -> Vec<u8> {
        let mut data: Vec<u8> = (0..SECTORS * 2048).map(|at| (at / 2048 + at * 7) as u8).collect();
        data[16 * 2048 + 1..][..5].copy_from_slice(b"CD001");
        data
    }

    fn raw(size: usize, mode: u8) -> Vec<u8> {
        let plain = plain();
        let sectors = plain.chunks(2048).flat_map(|data| {
            let mut sector = if size == 2336 { vec![] } else { [&SYNCHRONIZATION[..], &[0, 2, 0, mode]].concat() };
            sector.extend(if mode == 2 { vec![0; 8] } else { vec![] });
            sector.extend_from_slice(data);
            sector.resize(size, 0xee);
            sector
        });
        sectors.collect::<Vec<u8>>()
    }

    #[test]
    fn all_layouts_show_the_user_data() {
        for (size, mode) in [(2352, 1), (2352, 2), (2448, 1), (2448, 2), (2336, 2)] {
            let image = raw(size, mode);
            let total = image.len() as u64;
            let device = user_data(device_of(image)).unwrap();
            assert_eq!(device.size(), (SECTORS * 2048) as u64);
            assert_eq!(sector_size(device.size(), total), Some(size as u64));
            for (offset, length) in [(0, SECTORS * 2048), (2047, 2), (5000, 131_072), (0, 0), (SECTORS * 2048 - 1, 1)] {
                let mut buffer = vec![0; length];
                device.read_at(offset as u64, &mut buffer).unwrap();
                assert_eq!(buffer, plain()[offset..offset + length], "{size} {mode} {offset}");
            }
            assert_eq!(device.read_at((SECTORS * 2048) as u64, &mut [0]), Err(Errno::EIO));
        }
    }

    #[test]
    fn an_image_of_user_data_is_shown_as_it_is() {
        let device = user_data(device_of(plain())).unwrap();
        assert_eq!((device.size(), sector_size(device.size(), device.size())), ((SECTORS * 2048) as u64, None));
        let empty = user_data(device_of(vec![])).unwrap();
        assert_eq!(empty.size(), 0);
    }

    #[test]
    fn sectors_without_a_file_system_cannot_be_read() {
        let mut image = raw(2352, 2);
        image[20 * 2352 + 16 + 2] = FORM_2;
        image[21 * 2352 + 15] = 0;
        image[22 * 2352] = 1;
        let device = user_data(device_of(image)).unwrap();
        for sector in [20, 21, 22] {
            assert_eq!(device.read_at(sector * 2048, &mut [0]), Err(Errno::EIO));
        }
        assert_eq!(device.read_at(23 * 2048, &mut [0]), Ok(()));
    }
}
