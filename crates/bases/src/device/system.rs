//! System calls on devices that rustix lacks: the only unsafe code of devices.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// `BLKROGET`: whether the device is write-protected.
const GET_READ_ONLY: Opcode = opcode::none(0x12, 94);
/// `BLKDISCARD`: discards a range of bytes.
const DISCARD: Opcode = opcode::none(0x12, 119);

/// Returns whether a block device is write-protected.
///
/// # Errors
/// `ENOTTY` for a descriptor of anything else.
pub(crate) fn is_write_protected(device: BorrowedFd<'_>) -> Result<bool> {
    // SAFETY: the command writes an int.
    let value: i32 = unsafe { ioctl(device, Getter::<GET_READ_ONLY, i32>::new()) }?;
    Ok(value != 0)
}

/// Discards a range of a block device that is open for writing. Offset and length are in bytes, multiples of the logical sector size.
///
/// # Errors
/// `EOPNOTSUPP` if the device discards nothing; `ENOTTY` for a descriptor of anything else.
pub(crate) fn discard(device: BorrowedFd<'_>, offset: u64, length: u64) -> Result<()> {
    // SAFETY: the command reads an offset and a length, of 64 bits each.
    unsafe { ioctl(device, Setter::<DISCARD, [u64; 2]>::new([offset, length])) }
}

/// Starts to write a range of the page cache to the storage, in bytes: see sync_file_range(2).
///
/// # Errors
/// `EINVAL` for a range past the largest offset; an error of the storage, which fdatasync(2) does not report again.
pub(crate) fn start_writing_back(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<()> {
    let range = [offset, length].map(i64::try_from);
    let [Ok(offset), Ok(length)] = range else { return Err(Errno::INVAL) };
    // SAFETY: the call takes a descriptor, which is borrowed, and numbers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
