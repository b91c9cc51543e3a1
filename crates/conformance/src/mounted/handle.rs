//! Kernel file handles: obtaining one for an object, and opening the object by it.

use std::ffi::CString;
use std::os::fd::RawFd;

use rustix::io::{Errno, Result};

use super::convert::last_error;

/// Maximum length of a handle that the kernel creates, from its fcntl.h.
const MAX_HANDLE_BYTES: usize = 128;

/// `struct file_handle` with space for the longest handle.
#[repr(C)]
struct FileHandle {
    length: u32,
    kind: i32,
    bytes: [u8; MAX_HANDLE_BYTES],
}

/// Opens the object at a path by its handle, with the calling thread's credentials. A symbolic link in the last component is
/// not followed.
pub(crate) fn open(path: &[u8], flags: i32) -> Result<RawFd> {
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    let mut handle = FileHandle { length: MAX_HANDLE_BYTES as u32, kind: 0, bytes: [0; MAX_HANDLE_BYTES] };
    let mut mount = 0_i32;
    // SAFETY: the handle has the layout of struct file_handle with the space that its length states, and all pointers are valid
    // for the call.
    let named = unsafe {
        libc::syscall(libc::SYS_name_to_handle_at, libc::AT_FDCWD, path.as_ptr(), &raw mut handle, &raw mut mount, 0)
    };
    if named < 0 {
        return Err(last_error());
    }
    // SAFETY: the handle comes from the kernel, and is valid for the call.
    let opened =
        unsafe { libc::syscall(libc::SYS_open_by_handle_at, libc::AT_FDCWD, &raw mut handle, flags | libc::O_CLOEXEC) };
    if opened < 0 { Err(last_error()) } else { Ok(opened as RawFd) }
}
