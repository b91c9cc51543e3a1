//! Recognition of a FAT file system by its boot sector.

use vnode::Result;

use super::format::{BOOT_SECTOR_SIZE, BootSector, Geometry};
use crate::device::Device;

/// Returns whether a device, of any size, begins with the boot sector of a FAT file system that fits on it.
///
/// # Errors
/// Those of [`Device::read_at`].
pub fn is_file_system(device: &dyn Device) -> Result<bool> {
    let mut sector = [0; BOOT_SECTOR_SIZE];
    if device.size() < sector.len() as u64 {
        return Ok(false);
    }
    device.read_at(0, &mut sector)?;
    Ok(Geometry::new(&BootSector::decode(&sector), device.size()).is_ok())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::MemoryDevice;
    use crate::fat::tools::mkfs::{MkfsOptions, mkfs};

    #[test]
    fn only_file_systems_that_fit_are_recognised() {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        assert_eq!(is_file_system(&*device), Ok(false));
        mkfs(device.clone(), &MkfsOptions::default(), &mut |_| ()).unwrap();
        assert_eq!(is_file_system(&*device), Ok(true));
        let mut contents = device.contents();
        contents.truncate(1 << 19);
        assert_eq!(is_file_system(&MemoryDevice::from_bytes(&contents)), Ok(false));
        contents.truncate(511);
        assert_eq!(is_file_system(&MemoryDevice::from_bytes(&contents)), Ok(false));
    }
}
