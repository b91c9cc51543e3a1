//! An image in memory, for tests.

use std::sync::Arc;

use vnode::{Errno, Result};

use crate::device::{Device, DeviceRef, check_range};

/// Bytes as a device that cannot be written to.
pub(crate) struct TestDevice(Vec<u8>);

impl TestDevice {
    pub(crate) fn new(bytes: Vec<u8>) -> DeviceRef {
        Arc::new(Self(bytes))
    }
}

impl Device for TestDevice {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_range(self.size(), offset, buffer.len())?;
        buffer.copy_from_slice(&self.0[offset as usize..][..buffer.len()]);
        Ok(())
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Errno::EROFS)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}
