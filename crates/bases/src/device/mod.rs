//! Devices: what disk formats are read from and written to, as a sequence of bytes.
//!
//! A [`Device`] is a file or block device ([`FileDevice`]), a [`Partition`] of another device, or memory
//! ([`MemoryDevice`]). Tests wrap one in a [`FaultyDevice`], which fails as storage does, or in a [`RecordingDevice`],
//! which can be cut off at any write.

mod faulty;
mod file;
mod memory;
mod open_error;
mod partition;
mod recording;
mod system;
mod table;

pub use faulty::{Effect, Fault, FaultyDevice, Operation, OperationCounts};
pub use file::{Access, FileDevice};
pub use memory::MemoryDevice;
pub use open_error::{DeviceUser, OpenError};
pub use partition::{Partition, PartitionError, find_volume};
pub use recording::{Event, Fate, RecordingDevice};
pub use table::{PartitionEntry, PartitionKind, PartitionTable, TableError};

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use vnode::{Errno, Result};

/// A shared device.
pub type DeviceRef = Arc<dyn Device>;

/// Smallest sector size in bytes of any device, and the unit of all others.
pub const SECTOR_SIZE_MIN: u32 = 512;

/// A sequence of bytes of fixed size, readable and writable at any offset by concurrent callers.
pub trait Device: Send + Sync + 'static {
    /// Returns the size in bytes.
    fn size(&self) -> u64;

    /// Returns the largest size in bytes, a power of two from 512, of which aligned writes are not torn by a power failure. Default: 512.
    fn sector_size(&self) -> u32 {
        SECTOR_SIZE_MIN
    }

    /// Returns the size in bytes of the sectors that partition tables on the device count, if it determines one; an image in a file
    /// does not. Default: none.
    fn logical_sector_size(&self) -> Option<u32> {
        None
    }

    /// Returns whether nothing can be written. Default: no.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Fills the buffer from `offset`.
    ///
    /// # Errors
    /// `EIO` if any byte cannot be read, also for a range that does not end within the device.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Writes all of `data` at `offset`. Stable only after [`Device::flush`]; until then, any part of it may be lost,
    /// and writes may reach the storage in any order.
    ///
    /// # Errors
    /// `EROFS`; `EIO`, after which any part of the range may be written; `ENOSPC` of the file system that holds an image;
    /// `EIO` for a range that does not end within the device.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;

    /// Makes all completed writes stable, as fsync(2).
    ///
    /// # Errors
    /// `EIO`: any write since the last flush may be lost, even if a later flush succeeds.
    fn flush(&self) -> Result<()>;

    /// Declares that the contents of the range are no longer needed; they may be anything afterwards. Default: does nothing.
    ///
    /// # Errors
    /// Those of [`Device::write_at`].
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let _ = (offset, length);
        Ok(())
    }

    /// Announces that the range will be read soon, so that it is ready then; does not wait for it. Default: does nothing.
    fn prefetch(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Starts to store what was written in the range, so that less is left for the next flush, which reports its errors. Waits only while
    /// the device has as many requests as it takes: no lock may be held. Default: does nothing.
    fn start_writing_back(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Returns the file that holds the contents, and the offset of the first byte in it, for the kernel to read directly.
    /// Default: none.
    fn backing(&self) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }
}

/// Returns `EIO` for a range that does not end within `size` bytes.
pub(crate) fn check_range(size: u64, offset: u64, length: u64) -> Result<()> {
    let end = offset.checked_add(length);
    if end.is_some_and(|end| end <= size) { Ok(()) } else { Err(Errno::EIO) }
}
