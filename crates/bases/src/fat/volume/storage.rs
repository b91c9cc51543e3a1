//! Storage: the device of a volume, which becomes read-only at the first error of a write.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use vnode::{Errno, Result};

use crate::device::DeviceRef;
use crate::fat::format::Geometry;
use crate::fat::options::{ErrorPolicy, Options};

/// A device with the geometry of the file system on it.
pub(crate) struct Storage {
    device: DeviceRef,
    geometry: Geometry,
    /// How the volume is called in messages.
    title: String,
    is_read_only: bool,
    errors: ErrorPolicy,
    /// The disk does not take writes any more.
    has_failed: AtomicBool,
    /// Something is wrong on the disk, or could not be written.
    is_damaged: AtomicBool,
    has_ended: AtomicBool,
    /// Something was written since the last flush.
    is_unflushed: AtomicBool,
}

impl Storage {
    /// Returns the storage of a file system on a device.
    pub(crate) fn new(device: DeviceRef, geometry: Geometry, title: String, options: &Options) -> Self {
        let is_read_only = options.read_only || device.is_read_only();
        let (has_failed, is_damaged, has_ended, is_unflushed) = Default::default();
        let errors = options.errors;
        Self { device, geometry, title, is_read_only, errors, has_failed, is_damaged, has_ended, is_unflushed }
    }

    /// Returns the device.
    pub(crate) fn device(&self) -> &DeviceRef {
        &self.device
    }

    /// Refuses all writes from here on, as on a read-only device.
    pub(crate) fn set_read_only(&mut self) {
        self.is_read_only = true;
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

    /// Returns whether damage was found, or a write has failed.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Acquire)
    }

    /// Returns whether a failed write leaves the volume writable.
    pub(crate) fn continues(&self) -> bool {
        self.errors == ErrorPolicy::Continue
    }

    /// Checks that an operation may change the volume.
    ///
    /// # Errors
    /// `EROFS` if it was mounted read-only, is damaged, a write has failed, or it is no longer mounted.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_storable()?;
        if self.is_damaged() && !self.continues() { Err(Errno::EROFS) } else { Ok(()) }
    }

    /// Checks that changes can be stored, also those that were made before damage was found.
    fn check_storable(&self) -> Result<()> {
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
        self.check_storable()?;
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
        self.check_storable()?;
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

    /// Makes the volume read-only unless the options have it otherwise, and says so once. Returns the error of the operation that
    /// failed.
    pub(crate) fn fail(&self, what: &str, errno: Errno) -> Errno {
        if !self.continues() {
            self.has_failed.store(true, Ordering::Release);
        }
        self.report(format_args!("{what} ({errno})"));
        Errno::EIO
    }

    /// Notes damage of the volume, which becomes read-only unless the options have it otherwise. `problem` is the code by which a check
    /// reports it. Returns the error of the operation that found it.
    pub(crate) fn damage(&self, problem: &str, details: fmt::Arguments<'_>) -> Errno {
        self.report(format_args!("{problem}: {details}"));
        Errno::EIO
    }

    /// Says once that the volume is damaged.
    fn report(&self, what: fmt::Arguments<'_>) {
        if self.is_damaged.swap(true, Ordering::AcqRel) {
            return;
        }
        let (title, remedy) = (&self.title, self.remedy());
        match self.errors {
            ErrorPolicy::Continue => tracing::error!("{title}: {what}; {remedy}"),
            ErrorPolicy::RemountReadOnly if self.is_read_only => tracing::error!("{title}: {what}; {remedy}"),
            ErrorPolicy::RemountReadOnly => {
                tracing::error!("{title}: {what}; the volume is read-only from here on; {remedy}");
            }
        }
    }

    /// Returns what to do about a damaged volume.
    pub(crate) fn remedy(&self) -> String {
        format!("unmount it and run: plyfs fat fsck '{}'", self.title.replace('\'', "'\\''"))
    }
}
