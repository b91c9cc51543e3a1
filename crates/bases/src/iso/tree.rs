//! The directory tree that is read: of several in an image, one, with what its records mean.

use vnode::{Errno, Result};

use super::Options;
use super::format::volume_descriptor::{RootDirectory, VolumeDescription};
use crate::device::{DeviceRef, check_range};

/// Extensions of ISO 9660 that the records of a tree have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// Attributes, names and symlinks of Unix.
    RockRidge,
    /// Names in Unicode.
    Joliet,
    /// Long names in an unspecified character set (ISO 9660:1999).
    Enhanced,
    /// None.
    Plain,
}

/// A directory tree of an image.
pub(crate) struct Tree {
    pub(crate) device: DeviceRef,
    pub(crate) kind: TreeKind,
    /// Bytes at the beginning of the system use areas of Rock Ridge that belong to others.
    pub(crate) skipped: usize,
    /// Bytes of a logical block.
    pub(crate) block_size: u32,
    pub(crate) root: RootDirectory,
    pub(crate) options: Options,
}

impl Tree {
    /// Returns a tree of a volume.
    pub(crate) fn new(
        device: DeviceRef,
        kind: TreeKind,
        skipped: usize,
        volume: &VolumeDescription,
        options: Options,
    ) -> Self {
        Self { device, kind, skipped, block_size: volume.block_size, root: volume.root, options }
    }

    /// Returns the offset of a logical block in the device.
    pub(crate) fn offset_of(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.block_size)
    }

    /// Fills the buffer from `offset` in the device.
    ///
    /// # Errors
    /// `EIO`, also for what is not in the image.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_range(self.device.size(), offset, buffer.len() as u64).map_err(|_| Errno::EIO)?;
        self.device.read_at(offset, buffer)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::MemoryDevice;

    /// Returns a device with these contents.
    pub(crate) fn device_of(bytes: Vec<u8>) -> DeviceRef {
        Arc::new(MemoryDevice::from_bytes(&bytes))
    }
}
