//! Permissions: who may do what to an object, and what a new object inherits, with the same rules as Linux.

use libc::{S_ISGID, S_ISUID, S_ISVTX, S_IXGRP};
use vnode::{Caller, Errno, FileKind, Result};

use super::acl::Acl;
use super::metadata::Metadata;

/// Reading, as a bit in a digit of a mode.
pub(crate) const READ: u32 = 4;
/// Writing; for a directory, changing its entries.
pub(crate) const WRITE: u32 = 2;
/// Executing.
pub(crate) const EXECUTE: u32 = 1;
/// Searching a directory.
pub(crate) const SEARCH: u32 = EXECUTE;

/// The attributes that a new object gets from its directory and its creator.
pub(crate) struct Inherited {
    pub(crate) mode: u32,
    pub(crate) gid: u32,
    pub(crate) access_acl: Option<Box<Acl>>,
    pub(crate) default_acl: Option<Box<Acl>>,
}

/// Checks whether the caller has all of the permissions `wanted`.
///
/// # Errors
/// `EACCES`.
pub(crate) fn check(metadata: &Metadata, caller: &Caller, wanted: u32) -> Result<()> {
    // The kernel knows what the root of a user namespace may do to objects that its user owns.
    let is_overriding = caller.uid == metadata.uid && caller.is_admitted_by_kernel();
    let admitted = if caller.is_superuser() || is_overriding {
        // Everything, except running a file that nobody may run.
        metadata.kind == FileKind::Directory || wanted & EXECUTE == 0 || metadata.mode & 0o111 != 0
    } else {
        granted_by_class(metadata, caller, wanted)
    };
    if admitted { Ok(()) } else { Err(Errno::EACCES) }
}

fn granted_by_class(metadata: &Metadata, caller: &Caller, wanted: u32) -> bool {
    let mode = metadata.mode;
    if caller.uid == metadata.uid {
        return wanted & !(mode >> 6) == 0;
    }
    // With an empty mask Linux ignores the list altogether.
    if let Some(acl) = &metadata.access_acl
        && mode & 0o070 != 0
    {
        return acl.grants(caller, metadata.gid, wanted);
    }
    // The groups are checked only where they make a difference.
    let differs = wanted & (mode ^ (mode >> 3)) != 0;
    let digit = if differs && caller.is_in_group(metadata.gid) { mode >> 3 } else { mode };
    wanted & !digit == 0
}

/// Checks whether the caller may do what only the owner and the superuser may.
///
/// # Errors
/// `EPERM`.
pub(crate) fn check_owner(metadata: &Metadata, caller: &Caller) -> Result<()> {
    if caller.uid == metadata.uid || caller.is_superuser() { Ok(()) } else { Err(Errno::EPERM) }
}

/// Checks whether the caller may remove a name of `victim` from `directory`, by rmdir if `as_directory`, else by unlink.
///
/// # Errors
/// `EACCES`; `EPERM` if the sticky bit forbids it; `ENOTDIR` and `EISDIR` for an object of the wrong kind.
pub(crate) fn check_removal(
    directory: &Metadata,
    victim: &Metadata,
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

/// Returns whether the caller may keep the set-group-id bit of an object of group `gid`.
pub(crate) fn may_keep_setgid(caller: &Caller, gid: u32) -> bool {
    caller.is_superuser() || caller.is_in_group(gid)
}

/// Returns the set-id bits that a change of the owner clears, whoever makes it.
pub(crate) fn setid_bits_lost_by_chown(metadata: &Metadata, caller: &Caller) -> u32 {
    if metadata.kind == FileKind::Directory {
        return 0;
    }
    let loses_setgid = metadata.mode & S_IXGRP != 0 || !may_keep_setgid(caller, metadata.gid);
    S_ISUID | if loses_setgid { S_ISGID } else { 0 }
}

/// Clears the capabilities of a regular file that is written or truncated; also its set-id bits, unless the superuser does
/// so without requesting that, for this change (`forced`) or [for all](Caller::killing_privileges).
pub(crate) fn kill_privileges(metadata: &mut Metadata, caller: &Caller, forced: bool) {
    let keeps = caller.is_superuser() && !caller.kills_privileges() && !forced;
    if metadata.mode & (S_ISUID | S_ISGID) != 0 && !keeps {
        metadata.mode &= !setid_bits_lost_by_chown(metadata, caller);
    }
    metadata.xattrs.forget_capability();
}

/// Returns mode, group and ACLs of a new object in a directory. The umask applies only without a default list.
pub(crate) fn inherit(directory: &Metadata, caller: &Caller, kind: FileKind, mode: u32) -> Inherited {
    let setgid = directory.mode & S_ISGID != 0;
    let gid = if setgid { directory.gid } else { caller.gid };
    let mode = match kind {
        FileKind::Symlink => return Inherited { mode: 0o777, gid, access_acl: None, default_acl: None },
        FileKind::Directory => mode & (0o777 | S_ISVTX) | if setgid { S_ISGID } else { 0 },
        _ if setgid && mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP && !may_keep_setgid(caller, gid) => {
            mode & 0o7777 & !S_ISGID
        }
        _ => mode & 0o7777,
    };
    let Some(default) = &directory.default_acl else {
        return Inherited { mode: mode & !(caller.umask & 0o777), gid, access_acl: None, default_acl: None };
    };
    let access = default.inherited(mode);
    Inherited {
        mode: mode & !0o777 | access.mode_bits(),
        gid,
        access_acl: (!access.is_mode_only()).then(|| access.into()),
        default_acl: (kind == FileKind::Directory).then(|| default.clone()),
    }
}
