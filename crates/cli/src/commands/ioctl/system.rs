//! The system call: ioctl(2) with a number that says how many bytes are given.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Gives a command with data, which may be written to.
///
/// # Errors
/// As ioctl(2); `InvalidInput` if the number says that the data are another number of bytes.
pub(super) fn ioctl(file: &File, command: u32, data: &mut [u8]) -> io::Result<()> {
    const SIZE_BITS: u32 = 14;
    let bytes = (command >> 16 & ((1 << SIZE_BITS) - 1)) as usize;
    if bytes != data.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number says that as many bytes are read and written as there are, and they are borrowed for so long.
    match unsafe { libc::ioctl(file.as_raw_fd(), command.into(), data.as_mut_ptr()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
