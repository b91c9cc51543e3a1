//! Changes attributes: chmod, chown, truncate and utimensat in one.

use libc::S_ISGID;
use vnode::{Attributes, Caller, Errno, FileKind, Result, SetAttributes, SetTime, Timestamp};

use super::data::SIZE_MAX;
use super::inode::Inode;
use super::metadata::Metadata;
use super::permissions;

impl Inode {
    /// Changes attributes, all or none.
    pub(crate) fn change_attributes(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let mut state = self.write();
        check_size(&state.metadata, caller, changes)?;
        check_ids(&state.metadata, caller, changes)?;
        check_mode(&state.metadata, caller, changes)?;
        check_times(&state.metadata, caller, changes)?;
        if let Some(size) = changes.size {
            let (data, metadata) = state.file_mut()?;
            data.resize(&self.volume.pages, size)?;
            permissions::kill_privileges(metadata, caller, changes.kill_privileges);
            metadata.modified();
        } else if changes.kill_privileges {
            permissions::kill_privileges(&mut state.metadata, caller, true);
        }
        let metadata = &mut state.metadata;
        apply_ids(metadata, caller, changes);
        apply_mode(metadata, caller, changes);
        apply_times(metadata, changes);
        let attributes = self.attributes_in(&state);
        drop(state);
        self.volume.return_memory();
        Ok(attributes)
    }
}

fn check_size(metadata: &Metadata, caller: &Caller, changes: &SetAttributes) -> Result<()> {
    let Some(size) = changes.size else { return Ok(()) };
    match metadata.kind {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Errno::EISDIR),
        _ => return Err(Errno::EINVAL),
    }
    permissions::check(metadata, caller, permissions::WRITE)?;
    if size > SIZE_MAX { Err(Errno::EFBIG) } else { Ok(()) }
}

/// Checks a change of owner or group: the owner may give the object to a group of its own; all else requires the superuser.
fn check_ids(metadata: &Metadata, caller: &Caller, changes: &SetAttributes) -> Result<()> {
    if changes.uid == Some(u32::MAX) || changes.gid == Some(u32::MAX) {
        return Err(Errno::EINVAL);
    }
    if caller.is_superuser() {
        return Ok(());
    }
    let is_owner = caller.uid == metadata.uid;
    let keeps_owner = changes.uid.is_none_or(|uid| is_owner && uid == metadata.uid);
    let is_own_group = |gid| is_owner && (gid == metadata.gid || caller.is_in_group(gid));
    if keeps_owner && changes.gid.is_none_or(is_own_group) { Ok(()) } else { Err(Errno::EPERM) }
}

fn check_mode(metadata: &Metadata, caller: &Caller, changes: &SetAttributes) -> Result<()> {
    match changes.mode {
        None => Ok(()),
        Some(_) if metadata.kind == FileKind::Symlink => Err(Errno::EOPNOTSUPP),
        Some(_) => permissions::check_owner(metadata, caller),
    }
}

/// Checks a change of times: setting both to now, or any to now with a change of size, requires write permission; all else
/// requires ownership.
fn check_times(metadata: &Metadata, caller: &Caller, changes: &SetAttributes) -> Result<()> {
    let times = [changes.atime, changes.mtime];
    if times == [None, None] || permissions::check_owner(metadata, caller).is_ok() {
        return Ok(());
    }
    let explicit = times.iter().flatten().any(|time| *time != SetTime::Now);
    let only_one_set = times.contains(&None) && changes.size.is_none();
    if explicit || only_one_set {
        return Err(Errno::EPERM);
    }
    permissions::check(metadata, caller, permissions::WRITE)
}

fn apply_ids(metadata: &mut Metadata, caller: &Caller, changes: &SetAttributes) {
    if changes.uid.is_none() && changes.gid.is_none() {
        return;
    }
    metadata.mode &= !permissions::setid_bits_lost_by_chown(metadata, caller);
    if metadata.kind != FileKind::Directory {
        metadata.xattrs.forget_capability();
    }
    metadata.uid = changes.uid.unwrap_or(metadata.uid);
    metadata.gid = changes.gid.unwrap_or(metadata.gid);
    metadata.changed();
}

fn apply_mode(metadata: &mut Metadata, caller: &Caller, changes: &SetAttributes) {
    let Some(mode) = changes.mode else { return };
    metadata.mode = mode & 0o7777;
    if !permissions::may_keep_setgid(caller, metadata.gid) {
        metadata.mode &= !S_ISGID;
    }
    if let Some(acl) = &metadata.access_acl {
        metadata.access_acl = Some(acl.with_mode(metadata.mode).into());
    }
    metadata.changed();
}

fn apply_times(metadata: &mut Metadata, changes: &SetAttributes) {
    if changes.atime.is_none() && changes.mtime.is_none() {
        return;
    }
    let now = Timestamp::now();
    let value = |change: Option<SetTime>, old| match change {
        None => old,
        Some(SetTime::Now) => now,
        Some(SetTime::To(time)) => time,
    };
    metadata.atime = value(changes.atime, metadata.atime);
    metadata.mtime = value(changes.mtime, metadata.mtime);
    metadata.changed_at(now);
}
