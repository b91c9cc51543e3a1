//! A device that bounds what is done with it.

use std::sync::atomic::{AtomicU64, Ordering};

use bases::device::{Device, MemoryDevice};
use vnode::Result;

/// Largest number of bytes that are read and written.
const BYTES_MAX: u64 = 1 << 30;
/// Largest number of operations.
const OPERATIONS_MAX: u64 = 2_000_000;

/// A device in memory that panics when far more is read and written than its contents can require. What is outside of it fails.
pub(crate) struct BoundedDevice {
    device: MemoryDevice,
    bytes: AtomicU64,
    operations: AtomicU64,
}

impl BoundedDevice {
    /// Bounds a device.
    pub(crate) fn new(device: MemoryDevice) -> Self {
        Self { device, bytes: AtomicU64::new(0), operations: AtomicU64::new(0) }
    }

    /// Returns a copy of the device, without what was counted.
    pub(crate) fn copy(&self) -> MemoryDevice {
        self.device.clone()
    }

    fn count(&self, length: usize) {
        let bytes = self.bytes.fetch_add(length as u64, Ordering::Relaxed);
        let operations = self.operations.fetch_add(1, Ordering::Relaxed);
        assert!(bytes < BYTES_MAX && operations < OPERATIONS_MAX, "{bytes} bytes in {operations} operations");
    }
}

impl Device for BoundedDevice {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.count(buffer.len());
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.count(data.len());
        self.device.write_at(offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.count(0);
        self.device.discard(offset, length)
    }
}
