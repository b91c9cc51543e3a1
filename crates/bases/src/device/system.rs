//! ioctl commands of block devices that rustix lacks: the only unsafe code of devices.

use std::os::fd::BorrowedFd;

use rustix::io::Result;
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
