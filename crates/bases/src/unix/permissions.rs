//! Permissions: who may do what to an object, with the same rules as Linux.

use libc::S_ISVTX;
use vnode::{Caller, Errno, FileKind, OpenFlags, Result};

use super::protection::Protection;

/// Reading, as a bit in a digit of a mode.
pub(crate) const READ: u32 = 4;
/// Writing; for a directory, changing its entries.
pub(crate) const WRITE: u32 = 2;
/// Executing.
pub(crate) const EXECUTE: u32 = 1;
/// Searching a directory.
pub(crate) const SEARCH: u32 = EXECUTE;

/// Checks whether the caller has all of the permissions `wanted`.
///
/// # Errors
/// `EACCES`.
pub(crate) fn check(protection: &Protection, caller: &Caller, wanted: u32) -> Result<()> {
    // The kernel knows what the root of a user namespace may do to objects that its user owns.
    let is_overriding = caller.uid == protection.uid && caller.is_admitted_by_kernel();
    let admitted = if caller.is_superuser() || is_overriding {
        // Everything, except running a file that nobody may run.
        protection.kind == FileKind::Directory || wanted & EXECUTE == 0 || protection.mode & 0o111 != 0
    } else {
        granted_by_class(protection, caller, wanted)
    };
    if admitted { Ok(()) } else { Err(Errno::EACCES) }
}

fn granted_by_class(protection: &Protection, caller: &Caller, wanted: u32) -> bool {
    let mode = protection.mode;
    if caller.uid == protection.uid {
        return wanted & !(mode >> 6) == 0;
    }
    // With an empty mask Linux ignores the list altogether.
    if let Some(acl) = &protection.access_acl
        && mode & 0o070 != 0
    {
        return acl.grants(caller, protection.gid, wanted);
    }
    // The groups are checked only where they make a difference.
    let differs = wanted & (mode ^ (mode >> 3)) != 0;
    let digit = if differs && caller.is_in_group(protection.gid) { mode >> 3 } else { mode };
    wanted & !digit == 0
}

/// Checks whether the caller may do what only the owner and the superuser may.
///
/// # Errors
/// `EPERM`.
pub(crate) fn check_owner(protection: &Protection, caller: &Caller) -> Result<()> {
    if caller.uid == protection.uid || caller.is_superuser() { Ok(()) } else { Err(Errno::EPERM) }
}

/// Checks whether the caller may remove a name of `victim` from `directory`, by rmdir if `as_directory`, else by unlink.
///
/// # Errors
/// `EACCES`; `EPERM` if the sticky bit forbids it; `ENOTDIR` and `EISDIR` for an object of the wrong kind.
pub(crate) fn check_removal(
    directory: &Protection,
    victim: &Protection,
    caller: &Caller,
    as_directory: bool,
) -> Result<()> {
    check(directory, caller, WRITE | SEARCH)?;
    let owns = caller.uid == victim.uid || caller.uid == directory.uid || caller.is_superuser();
    if directory.mode & S_ISVTX != 0 && !owns {
        return Err(Errno::EPERM);
    }
    match (as_directory, victim.kind == FileKind::Directory) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}

/// Checks whether the caller may open a regular file with these flags.
///
/// # Errors
/// `EACCES`; `EPERM` for `O_NOATIME` on another user's file.
pub(crate) fn check_open(protection: &Protection, caller: &Caller, flags: OpenFlags) -> Result<()> {
    let reads = if flags.reads() { READ } else { 0 };
    let writes = if flags.writes() || flags.truncates() { WRITE } else { 0 };
    check(protection, caller, reads | writes)?;
    if has_noatime(flags) { check_owner(protection, caller) } else { Ok(()) }
}

/// Returns whether reading through an open file leaves the access time as it is.
pub(crate) fn has_noatime(flags: OpenFlags) -> bool {
    flags.bits() & libc::O_NOATIME as u32 != 0
}
