//! Reads and changes attributes, and reports file-system statistics.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use vnode::{Attributes, Caller, Errno, FileKind, InodeNumber, Result, SetAttributes, SetTime, StatFs};

use super::credentials::{AssumedCredentials, ThreadCredentials};
use super::node::Node;
use super::status::Status;
use super::{errno, restrictions};

/// Returns the attributes of an object.
pub(crate) fn get(node: &Node) -> Result<Attributes> {
    of_descriptor(node, node.descriptor(&mut node.tree().credentials.thread())?.as_fd())
}

/// Returns the attributes of an open object.
pub(crate) fn of_descriptor(node: &Node, descriptor: BorrowedFd<'_>) -> Result<Attributes> {
    let status = Status::of_descriptor(descriptor)?;
    Ok(restrictions::attributes(&node.mount(), &status))
}

/// Returns the statistics of the file system that an object is on.
pub(crate) fn statfs(node: &Node) -> Result<StatFs> {
    let descriptor = node.descriptor(&mut node.tree().credentials.thread())?;
    let state = rustix::fs::fstatfs(&descriptor).map_err(errno)?;
    Ok(StatFs {
        block_size: state.f_bsize as u32,
        fragment_size: if state.f_frsize == 0 { state.f_bsize as u32 } else { state.f_frsize as u32 },
        blocks: state.f_blocks,
        blocks_free: state.f_bfree,
        blocks_available: state.f_bavail,
        files: state.f_files,
        files_free: state.f_ffree,
        name_max: state.f_namelen as u32,
    })
}

/// Changes attributes, all or none: changes that may be refused are tried first or checked beforehand, and undone if a later
/// change fails all the same.
pub(crate) fn set(node: &Node, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
    // Before Linux 6.6, some file systems would change the mode of a symlink.
    if changes.mode.is_some() && node.file_kind() == FileKind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    let thread = &mut node.tree().credentials.thread();
    let object = node.descriptor(thread)?;
    let descriptor = object.as_fd();
    let before = if is_compound(changes) {
        let before = Status::of_descriptor(descriptor)?.attributes(InodeNumber::new(0));
        check(node, &thread.act_for(caller)?, caller, descriptor, changes, &before)?;
        Some(before)
    } else {
        None
    };
    let kills = changes.kill_privileges || (changes.size.is_some() && caller.kills_privileges());
    if let Some(size) = changes.size {
        set_size(thread, caller, descriptor, node.file_kind(), size)?;
    }
    if changes.kill_privileges && only_kills_privileges(changes) {
        // Like chown(2) with neither id given.
        set_owner(&thread.act_for(caller)?, descriptor, None, None)?;
    } else if kills && changes.uid.is_none() && changes.gid.is_none() {
        // A change of owner does it by itself, unless the change is refused.
        clear_privileges(node, thread, descriptor)?;
    }
    let changed = set_owner_mode_times(thread, caller, descriptor, changes);
    if let (Err(_), Some(before)) = (changed, before) {
        restore(thread, descriptor, changes, &before);
    }
    changed?;
    of_descriptor(node, descriptor)
}

fn set_owner_mode_times(
    thread: &mut ThreadCredentials,
    caller: &Caller,
    descriptor: BorrowedFd<'_>,
    changes: &SetAttributes,
) -> Result<()> {
    if changes.uid.is_some() || changes.gid.is_some() {
        // From then on the file's space is charged to the new owner, who may have none left.
        set_owner(&thread.act_past_limits(caller)?, descriptor, changes.uid, changes.gid)?;
    }
    let acting = thread.act_for(caller)?;
    // After the change of owner, which clears the set-id bits.
    if let Some(mode) = changes.mode {
        set_mode(&acting, descriptor, mode)?;
    }
    if changes.atime.is_some() || changes.mtime.is_some() {
        match set_times(&acting, descriptor, changes.atime, changes.mtime) {
            Err(Errno::EPERM) if changes.size.is_some() => set_times_now(thread, descriptor, changes)?,
            set => set?,
        }
    }
    Ok(())
}

/// Sets one timestamp to now, together with a size that was just set, for a caller that has write permission but is not the
/// owner. utimensat(2) by itself lets such callers only set both timestamps, but a truncation sets the modification time as
/// well.
fn set_times_now(thread: &mut ThreadCredentials, descriptor: BorrowedFd<'_>, changes: &SetAttributes) -> Result<()> {
    if [changes.atime, changes.mtime].iter().any(|time| matches!(time, Some(SetTime::To(_)))) {
        return Err(Errno::EPERM);
    }
    if !thread.assumes_callers() {
        // The change of size has already set the timestamp that cannot be set here.
        return if changes.atime.is_none() { Ok(()) } else { Err(Errno::EPERM) };
    }
    set_times(&thread.act_as_server()?, descriptor, changes.atime, changes.mtime)
}

/// Returns whether the only change is clearing the set-id bits and file capabilities.
fn only_kills_privileges(changes: &SetAttributes) -> bool {
    SetAttributes { kill_privileges: false, ..*changes }.is_empty()
}

/// Returns whether the changes take more than one system call.
fn is_compound(changes: &SetAttributes) -> bool {
    let groups = [
        changes.size.is_some(),
        changes.uid.is_some() || changes.gid.is_some(),
        changes.mode.is_some(),
        changes.atime.is_some() || changes.mtime.is_some(),
    ];
    groups.iter().filter(|group| **group).count() > 1
}

/// Performs the checks that Linux would make for each change, before making any of them.
fn check(
    node: &Node,
    acting: &AssumedCredentials<'_>,
    caller: &Caller,
    descriptor: BorrowedFd<'_>,
    changes: &SetAttributes,
    before: &Attributes,
) -> Result<()> {
    const UNCHANGEABLE: u64 = (libc::STATX_ATTR_IMMUTABLE | libc::STATX_ATTR_APPEND) as u64;
    if before.flags & UNCHANGEABLE != 0 {
        return Err(Errno::EPERM);
    }
    match (changes.size, node.file_kind()) {
        (None, _) | (Some(_), FileKind::Regular) => {}
        (Some(_), FileKind::Directory) => return Err(Errno::EISDIR),
        (Some(_), _) => return Err(Errno::EINVAL),
    }
    let (privileged, own_uid) = match node.tree().credentials.assumes_callers() {
        true => (caller.is_superuser(), caller.uid),
        false => (rustix::process::geteuid().is_root(), rustix::process::geteuid().as_raw()),
    };
    if privileged {
        return Ok(());
    }
    let owner = own_uid == before.uid;
    let changes_owner = changes.uid.is_some_and(|uid| uid != before.uid);
    // The caller's groups apply only where its credentials are assumed; elsewhere the change itself is tried and undone.
    let is_foreign_group = node.tree().credentials.assumes_callers()
        && changes.gid.is_some_and(|gid| gid != before.gid && !caller.is_in_group(gid));
    let needs_owner = changes.mode.is_some() || changes.uid.is_some() || changes.gid.is_some();
    let sets_time = |time| matches!(time, Some(SetTime::To(_)));
    if changes_owner
        || is_foreign_group
        || (!owner && (needs_owner || sets_time(changes.atime) || sets_time(changes.mtime)))
    {
        return Err(Errno::EPERM);
    }
    if changes.size.is_some() || (!owner && (changes.atime.is_some() || changes.mtime.is_some())) {
        acting.access(descriptor, libc::W_OK as u32).map_err(errno)?;
    }
    Ok(())
}

/// Reverts, as far as possible, what a change that failed half-way has already changed.
fn restore(thread: &mut ThreadCredentials, descriptor: BorrowedFd<'_>, changes: &SetAttributes, before: &Attributes) {
    let back = SetAttributes {
        uid: changes.uid.and(Some(before.uid)),
        gid: changes.gid.and(Some(before.gid)),
        mode: (before.kind != FileKind::Symlink).then_some(before.mode),
        ..SetAttributes::default()
    };
    let _ = set_owner_mode_times(thread, &Caller::server(), descriptor, &back);
}

fn set_size(
    thread: &mut ThreadCredentials,
    caller: &Caller,
    descriptor: BorrowedFd<'_>,
    kind: FileKind,
    size: u64,
) -> Result<()> {
    match kind {
        FileKind::Regular => {
            let size = i64::try_from(size).map_err(|_| Errno::EFBIG)?;
            thread.charge_space(caller, |acting| acting.truncate(descriptor, size))
        }
        FileKind::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

fn set_owner(
    acting: &AssumedCredentials<'_>,
    descriptor: BorrowedFd<'_>,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<()> {
    if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
        return Err(Errno::EINVAL);
    }
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    acting.change_owner(descriptor, uid, gid).map_err(errno)
}

/// Sets the permission and set-id bits.
fn set_mode(acting: &AssumedCredentials<'_>, descriptor: BorrowedFd<'_>, mode: u32) -> Result<()> {
    acting.change_mode(descriptor, mode_bits(mode)).map_err(errno)
}

fn set_times(
    acting: &AssumedCredentials<'_>,
    descriptor: BorrowedFd<'_>,
    atime: Option<SetTime>,
    mtime: Option<SetTime>,
) -> Result<()> {
    let special = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let value = |time| match time {
        None => special(UTIME_OMIT),
        Some(SetTime::Now) => special(UTIME_NOW),
        Some(SetTime::To(time)) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
    };
    let times = Timestamps { last_access: value(atime), last_modification: value(mtime) };
    acting.set_times(descriptor, &times).map_err(errno)
}

/// Clears the set-id bits of a file as Linux does when a process without CAP_FSETID writes to it, and the file capabilities,
/// which Linux itself clears at every write.
pub(crate) fn clear_privileges(node: &Node, thread: &mut ThreadCredentials, descriptor: BorrowedFd<'_>) -> Result<()> {
    if node.file_kind() != FileKind::Regular {
        return Ok(());
    }
    let mode = Status::of_descriptor(descriptor)?.mode();
    let executable_by_group = mode & libc::S_IXGRP != 0;
    let cleared = mode & !libc::S_ISUID & if executable_by_group { !libc::S_ISGID } else { !0 };
    if cleared != mode {
        set_mode(&thread.act_as_server()?, descriptor, cleared)?;
    }
    match thread.act_as_server()?.remove_attribute(descriptor, restrictions::CAPABILITIES).map_err(errno) {
        // A server without permission to clear capabilities has none to give away.
        Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP | Errno::EPERM) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the permission, set-id and sticky bits of a mode.
pub(crate) fn mode_bits(bits: u32) -> Mode {
    Mode::from_raw_mode(bits & 0o7777)
}
