//! The directory tree that is read: of several in an image, one, with what its records mean.

use std::sync::OnceLock;

use vnode::{Errno, Result, zeros};

use super::Options;
use super::format::path_table::{PathTable, PathTableLocation};
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
    path_table_location: PathTableLocation,
    /// Read when it is first needed.
    path_table: OnceLock<PathTable>,
}

/// Part of the memory for caches that a path table may take in the image.
const PATH_TABLE_PART: u64 = 16;

impl Tree {
    /// Returns a tree of a volume.
    pub(crate) fn new(
        device: DeviceRef,
        kind: TreeKind,
        skipped: usize,
        volume: &VolumeDescription,
        options: Options,
    ) -> Self {
        Self {
            device,
            kind,
            skipped,
            block_size: volume.block_size,
            root: volume.root,
            options,
            path_table_location: volume.path_table,
            path_table: OnceLock::new(),
        }
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

    /// Returns the parent, by the path table, of the directory that begins in this block; `None` if the table does not have it,
    /// cannot be read, or takes too much memory.
    pub(crate) fn parent_by_path_table(&self, block: u32) -> Option<u32> {
        self.path_table.get_or_init(|| self.read_path_table().unwrap_or_default()).parent(block)
    }

    fn read_path_table(&self) -> Result<PathTable> {
        let PathTableLocation { block, length } = self.path_table_location;
        if u64::from(length) > self.options.memory / PATH_TABLE_PART {
            return Err(Errno::ENOMEM);
        }
        check_range(self.device.size(), self.offset_of(block), u64::from(length))?;
        let mut bytes = zeros(length as usize)?;
        self.read(self.offset_of(block), &mut bytes)?;
        Ok(PathTable::parse(&bytes))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::MemoryDevice;

    /// Returns a tree on a device with these contents, with its root in block 0 and without a path table.
    pub(crate) fn tree_of(bytes: Vec<u8>, kind: TreeKind, block_size: u32) -> Tree {
        Tree {
            device: device_of(bytes),
            kind,
            skipped: 0,
            block_size,
            root: RootDirectory { block: 0, length: 0 },
            options: Options::default(),
            path_table_location: PathTableLocation::default(),
            path_table: OnceLock::new(),
        }
    }

    /// Returns a device with these contents.
    pub(crate) fn device_of(bytes: Vec<u8>) -> DeviceRef {
        Arc::new(MemoryDevice::from_bytes(&bytes))
    }
}
