//! Storage: the device of a volume, which becomes read-only at the first error of a write.

use std::sync::atomic::{AtomicBool, Ordering};

use vnode::{Errno, Result};

use crate::device::DeviceRef;
use crate::fat::format::Geometry;

/// A device with the geometry of the file system on it.
pub(crate) struct Storage {
    device: DeviceRef,
    geometry: Geometry,
    /// How the volume is called in messages.
    title: String,
    is_read_only: bool,
    has_failed: AtomicBool,
    has_ended: AtomicBool,
    /// Something was written since the last flush.
    is_unflushed: AtomicBool,
}

impl Storage {
    /// Returns the storage of a file system on a device, which is never written if `is_read_only`.
    pub(crate) fn new(device: DeviceRef, geometry: Geometry, title: String, is_read_only: bool) -> Self {
        let is_read_only = is_read_only || device.is_read_only();
        let (has_failed, has_ended, is_unflushed) = Default::default();
        Self { device, geometry, title, is_read_only, has_failed, has_ended, is_unflushed }
    }

    /// Returns the geometry.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the name of the volume for messages.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Returns whether the volume was mounted without permission to write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns whether a write has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Checks that the volume can be changed.
    ///
    /// # Errors
    /// `EROFS` if it was mounted read-only, a write has failed, or it is no longer mounted.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let is_writable = !self.is_read_only && !self.has_failed() && !self.has_ended.load(Ordering::Acquire);
        if is_writable { Ok(()) } else { Err(Errno::EROFS) }
    }

    /// Refuses all writes from here on.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Fills the buffer from `offset`.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buffer)
    }

    /// Writes data of a file at `offset`.
    ///
    /// # Errors
    /// `EROFS`; `ENOSPC` of the file system that holds an image; `EIO`, after which the volume is read-only.
    pub(crate) fn write_data(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.is_unflushed.store(true, Ordering::Release);
        match self.device.write_at(offset, data) {
            Err(errno) if errno != Errno::ENOSPC => Err(self.fail("a write of data failed", errno)),
            result => result,
        }
    }

    /// Writes what describes files at `offset`.
    ///
    /// # Errors
    /// `EROFS`; `EIO`, after which the volume is read-only.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.is_unflushed.store(true, Ordering::Release);
        self.device.write_at(offset, data).map_err(|errno| self.fail("a write failed", errno))
    }

    /// Makes all completed writes stable, if there were any.
    ///
    /// # Errors
    /// `EIO`, after which the volume is read-only.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        if self.has_failed() {
            return Err(Errno::EIO);
        }
        if !self.is_unflushed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.device.flush().map_err(|errno| self.fail("writes could not be made stable", errno))
    }

    /// Makes the volume read-only, and says so once. Returns the error of the operation that failed.
    pub(crate) fn fail(&self, what: &str, errno: Errno) -> Errno {
        if !self.has_failed.swap(true, Ordering::AcqRel) {
            let title = &self.title;
            tracing::error!("{title}: {what} ({errno}); the volume is read-only from here on, check it with fsck");
        }
        Errno::EIO
    }
}
