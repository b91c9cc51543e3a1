//! Set-ID bits: who may keep them, and what clears them.

use libc::{S_ISGID, S_ISUID, S_IXGRP};
use vnode::{Caller, FileKind};

use super::protection::Protection;

/// Returns whether the caller may keep the set-group-id bit of an object of group `gid`.
pub(crate) fn may_keep_setgid(caller: &Caller, gid: u32) -> bool {
    caller.is_superuser() || caller.is_in_group(gid)
}

/// Returns the set-id bits that a change of the owner clears, whoever makes it.
pub(crate) fn bits_lost_by_chown(protection: &Protection, caller: &Caller) -> u32 {
    if protection.kind == FileKind::Directory {
        return 0;
    }
    let loses_setgid = protection.mode & S_IXGRP != 0 || !may_keep_setgid(caller, protection.gid);
    S_ISUID | if loses_setgid { S_ISGID } else { 0 }
}

/// Clears the set-id bits of a regular file that is written or truncated, unless the superuser does so without requesting
/// that, for this change (`forced`) or [for all](Caller::killing_privileges). The file's capabilities are lost in any case.
pub(crate) fn clear(protection: &mut Protection, caller: &Caller, forced: bool) {
    let keeps = caller.is_superuser() && !caller.kills_privileges() && !forced;
    if protection.mode & (S_ISUID | S_ISGID) != 0 && !keeps {
        protection.mode &= !bits_lost_by_chown(protection, caller);
    }
}
