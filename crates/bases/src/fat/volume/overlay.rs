//! A device that is not written, with blocks that are different in memory.

use std::collections::BTreeMap;

use vnode::{Errno, Result};

use crate::device::{Device, DeviceRef};
use crate::fat::journal::format::BLOCK_SIZE;

/// A read-only view of a device in which some blocks have other contents.
pub(crate) struct OverlaidDevice {
    device: DeviceRef,
    /// Contents of blocks by their offset, a multiple of the block size.
    blocks: BTreeMap<u64, [u8; BLOCK_SIZE]>,
}

impl OverlaidDevice {
    /// Returns a view of a device with these blocks.
    pub(crate) fn new(device: DeviceRef, blocks: impl IntoIterator<Item = (u64, [u8; BLOCK_SIZE])>) -> Self {
        Self { device, blocks: blocks.into_iter().collect() }
    }
}

impl Device for OverlaidDevice {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn sector_size(&self) -> u32 {
        self.device.sector_size()
    }

    fn logical_sector_size(&self) -> Option<u32> {
        self.device.logical_sector_size()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buffer)?;
        let end = offset.saturating_add(buffer.len() as u64);
        let first = offset / BLOCK_SIZE as u64 * BLOCK_SIZE as u64;
        for (&start, bytes) in self.blocks.range(first..end) {
            let (from, to) = (start.max(offset), (start + BLOCK_SIZE as u64).min(end));
            let source = bytes.get((from - start) as usize..(to - start) as usize);
            let target = buffer.get_mut((from - offset) as usize..(to - offset) as usize);
            if let (Some(source), Some(target)) = (source, target) {
                target.copy_from_slice(source);
            }
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
        self.device.prefetch(offset, length);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::MemoryDevice;

    #[test]
    fn reads_see_the_blocks_that_they_touch() {
        let device = Arc::new(MemoryDevice::from_bytes(&[1; 4 * BLOCK_SIZE]));
        let overlaid = OverlaidDevice::new(device, [(512, [2; BLOCK_SIZE]), (1024, [3; BLOCK_SIZE])]);
        let mut expected = vec![1; 4 * BLOCK_SIZE];
        expected[512..1024].fill(2);
        expected[1024..1536].fill(3);
        for (offset, length) in
            [(0, 2048), (0, 512), (500, 20), (700, 100), (700, 600), (1500, 548), (512, 0), (1536, 1)]
        {
            let mut read = vec![0; length];
            overlaid.read_at(offset as u64, &mut read).unwrap();
            assert_eq!(read, expected[offset..offset + length], "{offset} {length}");
        }
        assert_eq!(overlaid.write_at(0, &[0]), Err(Errno::EROFS));
    }
}
