//! Recognises ISO 9660 images.

use std::sync::Arc;

use vnode::Result;

use super::raw_sectors;
use crate::device::DeviceRef;

/// Returns whether a device has a volume descriptor of ISO 9660 where the first one is, in an image of user data or of whole sectors.
/// What else the image consists of may be damaged or missing, which [`super::IsoFileSystem::open`] reports.
///
/// # Errors
/// `EIO` if the sector with the descriptor cannot be read.
pub fn is_iso(device: &DeviceRef) -> Result<bool> {
    raw_sectors::has_descriptor(&*raw_sectors::user_data(Arc::clone(device))?)
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::device_of;
    use super::*;
    use crate::device::{Effect, Fault, FaultyDevice, MemoryDevice, Operation};

    #[test]
    fn only_images_with_a_descriptor_are_recognised() {
        let mut image = vec![0; 17 * 2048];
        assert_eq!(is_iso(&device_of(image.clone())), Ok(false));
        assert_eq!(is_iso(&device_of(vec![])), Ok(false));
        image[16 * 2048 + 1..][..5].copy_from_slice(b"CD001");
        assert_eq!(is_iso(&device_of(image.clone())), Ok(true));
        assert_eq!(is_iso(&device_of(image[..16 * 2048 + 5].to_vec())), Ok(false));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let device = Arc::new(FaultyDevice::new(Arc::new(MemoryDevice::new(1 << 20))));
        device.add(Fault::of([Operation::Read], Effect::Error(vnode::Errno::EIO)));
        let device: DeviceRef = device;
        assert_eq!(is_iso(&device), Err(vnode::Errno::EIO));
    }
}
