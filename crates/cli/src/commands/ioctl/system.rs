//! The system call ioctl(2) with a command number that encodes the size of its data.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Issues a command with data, which may be modified.
///
/// # Errors
/// Fails as ioctl(2) does, and with `InvalidInput` if the command number encodes another size than that of the data.
pub(crate) fn ioctl(file: &File, command: u32, data: &mut [u8]) -> io::Result<()> {
    const SIZE_BITS: u32 = 14;
    let bytes = (command >> 16 & ((1 << SIZE_BITS) - 1)) as usize;
    if bytes != data.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the command number encodes that exactly as many bytes are read and written as there are, and they are borrowed
    // for the duration of the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), command.into(), data.as_mut_ptr()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
