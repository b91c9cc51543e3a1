//! Recognises FAT volumes.

use vnode::Result;

use crate::device::DeviceRef;

use super::format::{BOOT_SECTOR_SIZE, BootSector, Geometry, GeometryError};

/// Returns whether a device begins with the boot sector of a FAT volume. What else the volume consists of may be damaged or missing,
/// which [`super::FatFileSystem::open`] reports.
///
/// # Errors
/// `EIO` if the first sector cannot be read.
pub fn is_fat(device: &DeviceRef) -> Result<bool> {
    if device.size() < BOOT_SECTOR_SIZE as u64 {
        return Ok(false);
    }
    let mut sector = [0; BOOT_SECTOR_SIZE];
    device.read_at(0, &mut sector)?;
    Ok(matches!(Geometry::new(&BootSector::decode(&sector), u64::MAX), Ok(_) | Err(GeometryError::RootCluster(_))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::{Device, MemoryDevice};

    #[test]
    fn only_boot_sectors_of_fat_are_recognised() {
        let empty: DeviceRef = Arc::new(MemoryDevice::new(1 << 20));
        assert_eq!(is_fat(&empty), Ok(false));
        let tiny: DeviceRef = Arc::new(MemoryDevice::new(100));
        assert_eq!(is_fat(&tiny), Ok(false));
        let noise: DeviceRef = Arc::new(MemoryDevice::from_bytes(&[0xeb; 4096]));
        assert_eq!(is_fat(&noise), Ok(false));
        let volume: DeviceRef = Arc::new(MemoryDevice::new(1 << 20));
        crate::fat::tools::mkfs::mkfs(volume.clone(), &Default::default(), &mut |_| {}).unwrap();
        assert_eq!(is_fat(&volume), Ok(true));
        let mut whole = vec![0; 1 << 20];
        volume.read_at(0, &mut whole).unwrap();
        let cut: DeviceRef = Arc::new(MemoryDevice::from_bytes(&whole[..8192]));
        assert_eq!(is_fat(&cut), Ok(true), "though the rest is missing");
    }
}
