//! Changes of attributes: who may make them, and what they do, for chmod, chown, truncate and utimensat in one.

use libc::S_ISGID;
use vnode::{Caller, Errno, FileKind, Result, SetAttributes, SetTime, Timestamp};

use super::permissions;
use super::protection::Protection;
use super::set_id;
use super::times::Times;

/// Checks whether the caller may make all of the changes, in the order of Linux's checks. Files have at most `size_max` bytes.
///
/// # Errors
/// As chmod(2), chown(2), truncate(2), utimensat(2).
pub(crate) fn check(protection: &Protection, caller: &Caller, changes: &SetAttributes, size_max: u64) -> Result<()> {
    check_size(protection, caller, changes, size_max)?;
    check_ids(protection, caller, changes)?;
    check_mode(protection, caller, changes)?;
    check_times(protection, caller, changes)
}

/// Makes changes that [`check`] admits, after the size was changed. Returns whether the object loses its capabilities.
pub(crate) fn apply(protection: &mut Protection, times: &mut Times, caller: &Caller, changes: &SetAttributes) -> bool {
    let kills_privileges = changes.size.is_some() || changes.kill_privileges;
    if kills_privileges {
        set_id::clear(protection, caller, changes.kill_privileges);
    }
    if changes.size.is_some() {
        times.modified();
    }
    let changes_ids = apply_ids(protection, times, caller, changes);
    apply_mode(protection, times, caller, changes);
    apply_times(times, changes);
    kills_privileges || changes_ids && protection.kind != FileKind::Directory
}

fn check_size(protection: &Protection, caller: &Caller, changes: &SetAttributes, size_max: u64) -> Result<()> {
    let Some(size) = changes.size else { return Ok(()) };
    match protection.kind {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Errno::EISDIR),
        _ => return Err(Errno::EINVAL),
    }
    permissions::check(protection, caller, permissions::WRITE)?;
    if size > size_max { Err(Errno::EFBIG) } else { Ok(()) }
}

/// Checks a change of owner or group: the owner may give the object to a group of its own; all else requires the superuser.
fn check_ids(protection: &Protection, caller: &Caller, changes: &SetAttributes) -> Result<()> {
    if changes.uid == Some(u32::MAX) || changes.gid == Some(u32::MAX) {
        return Err(Errno::EINVAL);
    }
    if caller.is_superuser() {
        return Ok(());
    }
    let is_owner = caller.uid == protection.uid;
    let keeps_owner = changes.uid.is_none_or(|uid| is_owner && uid == protection.uid);
    let is_own_group = |gid| is_owner && (gid == protection.gid || caller.is_in_group(gid));
    if keeps_owner && changes.gid.is_none_or(is_own_group) { Ok(()) } else { Err(Errno::EPERM) }
}

fn check_mode(protection: &Protection, caller: &Caller, changes: &SetAttributes) -> Result<()> {
    match changes.mode {
        None => Ok(()),
        Some(_) if protection.kind == FileKind::Symlink => Err(Errno::EOPNOTSUPP),
        Some(_) => permissions::check_owner(protection, caller),
    }
}

/// Checks a change of times: setting both to now, or any to now with a change of size, requires write permission; all else
/// requires ownership.
fn check_times(protection: &Protection, caller: &Caller, changes: &SetAttributes) -> Result<()> {
    let times = [changes.atime, changes.mtime];
    if times == [None, None] || permissions::check_owner(protection, caller).is_ok() {
        return Ok(());
    }
    let explicit = times.iter().flatten().any(|time| *time != SetTime::Now);
    let only_one_set = times.contains(&None) && changes.size.is_none();
    if explicit || only_one_set {
        return Err(Errno::EPERM);
    }
    permissions::check(protection, caller, permissions::WRITE)
}

/// Returns whether there was anything to do.
fn apply_ids(protection: &mut Protection, times: &mut Times, caller: &Caller, changes: &SetAttributes) -> bool {
    if changes.uid.is_none() && changes.gid.is_none() {
        return false;
    }
    protection.mode &= !set_id::bits_lost_by_chown(protection, caller);
    protection.uid = changes.uid.unwrap_or(protection.uid);
    protection.gid = changes.gid.unwrap_or(protection.gid);
    times.changed();
    true
}

fn apply_mode(protection: &mut Protection, times: &mut Times, caller: &Caller, changes: &SetAttributes) {
    let Some(mode) = changes.mode else { return };
    protection.mode = mode & 0o7777;
    if !set_id::may_keep_setgid(caller, protection.gid) {
        protection.mode &= !S_ISGID;
    }
    if let Some(acl) = &protection.access_acl {
        protection.access_acl = Some(acl.with_mode(protection.mode).into());
    }
    times.changed();
}

fn apply_times(times: &mut Times, changes: &SetAttributes) {
    if changes.atime.is_none() && changes.mtime.is_none() {
        return;
    }
    let now = Timestamp::now();
    let value = |change: Option<SetTime>, old| match change {
        None => old,
        Some(SetTime::Now) => now,
        Some(SetTime::To(time)) => time,
    };
    times.atime = value(changes.atime, times.atime);
    times.mtime = value(changes.mtime, times.mtime);
    times.changed_at(now);
}
