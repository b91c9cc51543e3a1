//! A device that runs something once, in the middle of an operation.

use std::sync::{Mutex, PoisonError};

use plyfs_bases::device::{Device, MemoryDevice};

/// A device that runs something once before a certain part of it is read, or writes are made stable.
pub(crate) struct TrappedDevice {
    device: MemoryDevice,
    reading: Mutex<Option<(Vec<u8>, Action)>>,
    flushing: Mutex<Option<Action>>,
}

type Action = Box<dyn FnOnce() + Send>;

impl TrappedDevice {
    pub(crate) fn new(device: MemoryDevice) -> Self {
        Self { device, reading: Mutex::default(), flushing: Mutex::default() }
    }

    /// Runs `action` when something with these bytes is read next.
    pub(crate) fn before_reading(&self, bytes: &[u8], action: impl FnOnce() + Send + 'static) {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some((bytes.to_vec(), Box::new(action)));
    }

    /// Runs `action` when writes are made stable next.
    pub(crate) fn before_flush(&self, action: impl FnOnce() + Send + 'static) {
        *self.flushing.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(action));
    }

    /// Returns whether everything has run.
    pub(crate) fn has_run(&self) -> bool {
        let is_reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        !is_reading && self.flushing.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Device for TrappedDevice {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn sector_size(&self) -> u32 {
        self.device.sector_size()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> vnode::Result<()> {
        self.device.read_at(offset, buffer)?;
        let reading = {
            let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            reading.take_if(|(bytes, _)| buffer.windows(bytes.len()).any(|window| window == bytes))
        };
        if let Some((_, action)) = reading {
            action();
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> vnode::Result<()> {
        self.device.write_at(offset, data)
    }

    fn flush(&self) -> vnode::Result<()> {
        let action = self.flushing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(action) = action {
            action();
        }
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> vnode::Result<()> {
        self.device.discard(offset, length)
    }
}
