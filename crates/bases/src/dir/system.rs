//! System calls that rustix lacks, or has in an unsuitable form: the only unsafe code of this base.

use std::ffi::{CStr, c_int, c_long};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::io::Errno as SystemError;
use rustix::path::Arg;

use super::handle::{FILE_HANDLE_MAX, FileHandle};

/// The result of the calls here.
pub(crate) type SystemResult<T> = Result<T, SystemError>;

/// `AT_EMPTY_PATH`: the call applies to the descriptor itself.
pub(crate) const EMPTY_PATH: c_int = libc::AT_EMPTY_PATH;

fn last_error() -> SystemError {
    SystemError::from_io_error(&std::io::Error::last_os_error()).unwrap_or(SystemError::IO)
}

fn checked(result: c_long) -> SystemResult<c_long> {
    if result < 0 { Err(last_error()) } else { Ok(result) }
}

/// `struct file_handle` with room for the longest handle used here.
#[repr(C)]
struct RawFileHandle {
    length: u32,
    kind: i32,
    bytes: [u8; FILE_HANDLE_MAX],
}

/// name_to_handle_at(2). Never follows a symlink.
///
/// # Errors
/// `EOPNOTSUPP` if the file system has no handles, `EOVERFLOW` if they are longer than the room here.
pub(crate) fn name_to_handle_at(directory: BorrowedFd<'_>, name: &[u8], flags: c_int) -> SystemResult<FileHandle> {
    let mut raw = RawFileHandle { length: FILE_HANDLE_MAX as u32, kind: 0, bytes: [0; FILE_HANDLE_MAX] };
    let mut mount_id: c_int = 0;
    name.into_with_c_str(|name| {
        // SAFETY: `raw` is laid out as struct file_handle with the room that its length field states, and all pointers are
        // valid for the call.
        checked(unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                directory.as_raw_fd(),
                name.as_ptr(),
                &raw mut raw,
                &raw mut mount_id,
                flags,
            )
        })
    })?;
    FileHandle::new(raw.kind, raw.bytes.get(..raw.length as usize).ok_or(SystemError::OVERFLOW)?)
}

/// listxattrat(2), added in Linux 6.13; `ENOSYS` before.
pub(crate) fn list_attributes_at(directory: BorrowedFd<'_>, name: &CStr, buffer: &mut [u8]) -> SystemResult<usize> {
    // The same number on all architectures, as for all new calls; the C library has no name for it yet.
    const LISTXATTRAT: c_long = 465;
    // SAFETY: the name is a C string, the buffer is writable for the length passed to the call, and both are valid for the
    // call.
    let length = checked(unsafe {
        libc::syscall(LISTXATTRAT, directory.as_raw_fd(), name.as_ptr(), 0_u32, buffer.as_mut_ptr(), buffer.len())
    })?;
    Ok(length as usize)
}

/// open_by_handle_at(2). Requires CAP_DAC_READ_SEARCH, which a thread loses with a file system user id other than 0.
///
/// # Errors
/// `ESTALE` if the object is gone, `EPERM` without the capability.
pub(crate) fn open_by_handle_at(mount: BorrowedFd<'_>, handle: &FileHandle, flags: c_int) -> SystemResult<OwnedFd> {
    let mut raw =
        RawFileHandle { length: handle.as_bytes().len() as u32, kind: handle.kind(), bytes: [0; FILE_HANDLE_MAX] };
    raw.bytes[..handle.as_bytes().len()].copy_from_slice(handle.as_bytes());
    let mut attempts = 0;
    let descriptor = loop {
        // SAFETY: `raw` is laid out as struct file_handle and valid for the call.
        let answer = checked(unsafe {
            libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), &raw mut raw, flags | libc::O_CLOEXEC)
        });
        attempts += 1;
        match answer {
            // ext4 also reports this while the inode number of a removed object is being reused for a new one; once that is
            // done, it reports ESTALE.
            Err(SystemError::NOMEM) if attempts < REUSE_ATTEMPTS_MAX => std::thread::yield_now(),
            answer => break answer?,
        }
    };
    // SAFETY: the call has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}

/// Maximum number of times an open that fails for lack of memory is repeated before the error is believed.
const REUSE_ATTEMPTS_MAX: u32 = 1_000;

/// Sets the thread's file system user id and returns whether it now has that value.
pub(crate) fn set_file_system_uid(uid: u32) -> bool {
    // SAFETY: setfsuid takes a plain number; with an invalid one it only returns the current id.
    unsafe {
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX) as u32 == uid
    }
}

/// Sets the thread's file system group id and returns whether it now has that value.
pub(crate) fn set_file_system_gid(gid: u32) -> bool {
    // SAFETY: setfsgid takes a plain number; with an invalid one it only returns the current id.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsgid(u32::MAX) as u32 == gid
    }
}

/// Returns the thread's file system user and group ids.
pub(crate) fn file_system_ids() -> (u32, u32) {
    // SAFETY: with an invalid id these only return the current ones.
    unsafe { (libc::setfsuid(u32::MAX) as u32, libc::setfsgid(u32::MAX) as u32) }
}

/// Sets the supplementary groups of this thread alone; the C library's function would set those of the whole process.
///
/// # Errors
/// `EPERM` without CAP_SETGID, `EINVAL` for too many groups.
pub(crate) fn set_thread_groups(groups: &[u32]) -> SystemResult<()> {
    // SAFETY: the pointer and the length are those of a live slice of gid_t.
    checked(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) }).map(drop)
}

/// Gives this thread a file mode creation mask of its own.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn unshare_umask() -> SystemResult<()> {
    // SAFETY: unsharing the working directory, root and umask touches no memory; nothing here uses the first two.
    checked(c_long::from(unsafe { libc::unshare(libc::CLONE_FS) })).map(drop)
}

/// Sets the file mode creation mask, and returns the previous one.
pub(crate) fn set_umask(umask: u32) -> u32 {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask)).as_raw_mode()
}

/// faccessat2(2) on the descriptor itself, by the thread's file system credentials.
///
/// # Errors
/// As faccessat2(2).
pub(crate) fn access(descriptor: BorrowedFd<'_>, mode: u32) -> SystemResult<()> {
    let flags = libc::AT_EACCESS | EMPTY_PATH;
    // SAFETY: the path is a valid C string; nothing else is a pointer.
    checked(unsafe { libc::syscall(libc::SYS_faccessat2, descriptor.as_raw_fd(), c"".as_ptr(), mode, flags) }).map(drop)
}

/// fchmodat2(2) on the descriptor itself, which may be an `O_PATH` one. Added in Linux 6.6.
///
/// # Errors
/// `ENOSYS` before Linux 6.6, `EOPNOTSUPP` for a symlink; otherwise as fchmodat(2).
pub(crate) fn change_mode(descriptor: BorrowedFd<'_>, mode: u32) -> SystemResult<()> {
    // SAFETY: the path is a valid C string; nothing else is a pointer.
    checked(unsafe { libc::syscall(libc::SYS_fchmodat2, descriptor.as_raw_fd(), c"".as_ptr(), mode, EMPTY_PATH) })
        .map(drop)
}

/// truncate(2).
///
/// # Errors
/// As truncate(2).
pub(crate) fn truncate(path: &CStr, size: i64) -> SystemResult<()> {
    // SAFETY: the path is a valid C string.
    checked(c_long::from(unsafe { libc::truncate64(path.as_ptr(), size) })).map(drop)
}

/// getdents64(2); returns the number of bytes of records written.
///
/// # Errors
/// As getdents(2).
pub(crate) fn read_records(directory: BorrowedFd<'_>, buffer: &mut [u8]) -> SystemResult<usize> {
    // SAFETY: the pointer and the length are those of a live, writable slice.
    checked(unsafe { libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), buffer.as_mut_ptr(), buffer.len()) })
        .map(|length| length as usize)
}

/// Open file description lock: `F_OFD_SETLK` or `F_OFD_GETLK`, with `lock` as both argument and result.
///
/// # Errors
/// As fcntl(2).
pub(crate) fn description_lock(
    descriptor: BorrowedFd<'_>,
    command: c_int,
    lock: &mut libc::flock64,
) -> SystemResult<()> {
    // SAFETY: both commands take a pointer to a struct flock64, which is valid and writable here.
    checked(c_long::from(unsafe { libc::fcntl(descriptor.as_raw_fd(), command, lock as *mut libc::flock64) })).map(drop)
}

/// Returns whether the file is open by another description too, as it is for a mapping; `false` if the file system cannot tell.
/// Only then the kernel denies a write lease, which is given up at once: see fcntl(2). Who opens the file meanwhile waits that long.
pub(crate) fn is_open_elsewhere(descriptor: BorrowedFd<'_>) -> bool {
    // The libc crate has no name for it.
    const F_SETSIG: c_int = 10;
    let control = |command: c_int, argument: c_int| {
        // SAFETY: these commands take a number.
        checked(c_long::from(unsafe { libc::fcntl(descriptor.as_raw_fd(), command, argument) }))
    };
    // The notification of an open, by default SIGIO, would end the process.
    if control(F_SETSIG, libc::SIGURG).is_err() {
        return false;
    }
    match control(libc::F_SETLEASE, libc::F_WRLCK) {
        Ok(_) => {
            // A lease that is not given up goes with the descriptor.
            let _ = control(libc::F_SETLEASE, libc::F_UNLCK);
            false
        }
        Err(error) => error == SystemError::AGAIN,
    }
}

/// ioctl(2) with a buffer, for commands that read or write at most `data.len()` bytes.
///
/// # Errors
/// As ioctl(2).
///
/// # Safety
/// The command must access no more than `data.len()` bytes at its argument.
pub(crate) unsafe fn ioctl(descriptor: BorrowedFd<'_>, command: u32, data: &mut [u8]) -> SystemResult<i32> {
    // SAFETY: the caller vouches for the size; the buffer is live and writable.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), command as _, data.as_mut_ptr()) };
    checked(c_long::from(result)).map(|result| result as i32)
}

/// close(2), returning its error: that of earlier writes, on file systems that report it at close.
///
/// # Errors
/// As close(2). The descriptor is closed even then.
pub(crate) fn close(descriptor: OwnedFd) -> SystemResult<()> {
    // SAFETY: the number is that of an owned descriptor, released here.
    checked(c_long::from(unsafe { libc::close(descriptor.into_raw_fd()) })).map(drop)
}
