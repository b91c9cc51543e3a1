//! Attributes read and changed, and the state of the file system.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Gid, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use vnode::{Attributes, Caller, Errno, FileKind, Result, SetAttributes, SetTime, StatFs};

use super::node::Node;
use super::status::Status;
use super::{errno, restrictions, system};

/// The attributes of an object.
pub fn get(node: &Node) -> Result<Attributes> {
    of_descriptor(node, node.descriptor()?.as_fd())
}

/// The attributes of an object that is open.
pub fn of_descriptor(node: &Node, descriptor: BorrowedFd<'_>) -> Result<Attributes> {
    let status = Status::of_descriptor(descriptor)?;
    Ok(restrictions::attributes(&node.mount(), &status))
}

/// The state of the file system that an object is on.
pub fn statfs(node: &Node) -> Result<StatFs> {
    let descriptor = node.descriptor()?;
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

/// Changes attributes, all or none: what may be refused is tried first or checked before, and undone if a later change
/// fails all the same.
pub fn set(node: &Node, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
    // Before Linux 6.6 some file systems would change it.
    if changes.mode.is_some() && node.file_kind() == FileKind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    let object = node.descriptor_for(caller)?;
    let descriptor = object.as_fd();
    let before = if is_compound(changes) {
        let before = Status::of_descriptor(descriptor)?.attributes(0);
        check(node, caller, descriptor, changes, &before)?;
        Some(before)
    } else {
        None
    };
    if let Some(size) = changes.size {
        set_size(descriptor, node.file_kind(), size)?;
    }
    if changes.kill_privileges && is_alone(changes) {
        // As chown(2) does that names no ids.
        set_owner(descriptor, None, None)?;
    } else if changes.kill_privileges && changes.uid.is_none() && changes.gid.is_none() {
        // A change of owner does it by itself, unless it is refused.
        clear_privileges(node, descriptor, true)?;
        node.tree().credentials.assume(caller)?;
    }
    let changed = set_owner_mode_times(node, caller, descriptor, changes);
    if let (Err(_), Some(before)) = (changed, before) {
        restore(node, descriptor, changes, &before);
    }
    changed?;
    of_descriptor(node, descriptor)
}

fn set_owner_mode_times(
    node: &Node,
    caller: &Caller,
    descriptor: BorrowedFd<'_>,
    changes: &SetAttributes,
) -> Result<()> {
    if changes.uid.is_some() || changes.gid.is_some() {
        set_owner(descriptor, changes.uid, changes.gid)?;
    }
    // After the owner, whose change clears the set-id bits.
    if let Some(mode) = changes.mode {
        set_mode(descriptor, mode)?;
    }
    if changes.atime.is_some() || changes.mtime.is_some() {
        match set_times(descriptor, changes.atime, changes.mtime) {
            Err(Errno::EPERM) if changes.size.is_some() => set_times_now(node, caller, descriptor, changes)?,
            set => set?,
        }
    }
    Ok(())
}

/// Sets one time stamp to now, beside a size that was just set, for somebody who may write but is not the owner.
/// utimensat(2) alone lets them set both only, but a truncation sets the modification time as well.
fn set_times_now(node: &Node, caller: &Caller, descriptor: BorrowedFd<'_>, changes: &SetAttributes) -> Result<()> {
    if [changes.atime, changes.mtime].iter().any(|time| matches!(time, Some(SetTime::To(_)))) {
        return Err(Errno::EPERM);
    }
    if !node.tree().credentials.switches() {
        // What cannot be set here, the change of size has set already.
        return if changes.atime.is_none() { Ok(()) } else { Err(Errno::EPERM) };
    }
    node.tree().credentials.become_server()?;
    set_times(descriptor, changes.atime, changes.mtime)?;
    node.tree().credentials.assume(caller)
}

/// Whether nothing goes but what makes a program privileged.
fn is_alone(changes: &SetAttributes) -> bool {
    SetAttributes { kill_privileges: false, ..*changes }.is_empty()
}

/// Whether the changes take more than one system call.
fn is_compound(changes: &SetAttributes) -> bool {
    let groups = [
        changes.size.is_some(),
        changes.uid.is_some() || changes.gid.is_some(),
        changes.mode.is_some(),
        changes.atime.is_some() || changes.mtime.is_some(),
    ];
    groups.iter().filter(|group| **group).count() > 1
}

/// Checks what Linux would check of each change, before any of them is made.
fn check(
    node: &Node,
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
    let (privileged, own_uid) = match node.tree().credentials.switches() {
        true => (caller.is_superuser(), caller.uid),
        false => (rustix::process::geteuid().is_root(), rustix::process::geteuid().as_raw()),
    };
    if privileged {
        return Ok(());
    }
    let owner = own_uid == before.uid;
    let gives_away = changes.uid.is_some_and(|uid| uid != before.uid);
    // Groups are the caller's only where its credentials are taken on; elsewhere the change itself is tried and undone.
    let strange_group = node.tree().credentials.switches()
        && changes.gid.is_some_and(|gid| gid != before.gid && !caller.is_in_group(gid));
    let needs_owner = changes.mode.is_some() || changes.uid.is_some() || changes.gid.is_some();
    let sets_time = |time| matches!(time, Some(SetTime::To(_)));
    if gives_away || strange_group || (!owner && (needs_owner || sets_time(changes.atime) || sets_time(changes.mtime)))
    {
        return Err(Errno::EPERM);
    }
    if changes.size.is_some() || (!owner && (changes.atime.is_some() || changes.mtime.is_some())) {
        system::access(descriptor, libc::W_OK as u32).map_err(errno)?;
    }
    Ok(())
}

/// Puts back what a change that failed half-way had changed already, as far as that can be done.
fn restore(node: &Node, descriptor: BorrowedFd<'_>, changes: &SetAttributes, before: &Attributes) {
    let back = SetAttributes {
        uid: changes.uid.and(Some(before.uid)),
        gid: changes.gid.and(Some(before.gid)),
        mode: (before.kind != FileKind::Symlink).then_some(before.mode),
        ..SetAttributes::default()
    };
    let _ = node.tree().credentials.become_server();
    let _ = set_owner_mode_times(node, &Caller::server(), descriptor, &back);
}

fn set_size(descriptor: BorrowedFd<'_>, kind: FileKind, size: u64) -> Result<()> {
    match kind {
        FileKind::Regular => {
            let size = i64::try_from(size).map_err(|_| Errno::EFBIG)?;
            system::truncate(system::DescriptorPath::new(descriptor).as_c_str(), size).map_err(errno)
        }
        FileKind::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

fn set_owner(descriptor: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
        return Err(Errno::EINVAL);
    }
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(descriptor, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(errno)
}

/// Sets permission and set-id bits, with the thread's credentials.
pub fn set_mode(descriptor: BorrowedFd<'_>, mode: u32) -> Result<()> {
    use rustix::io::Errno as SystemError;
    match system::change_mode(descriptor, mode & 0o7777) {
        Err(SystemError::NOSYS) => {
            // Before Linux 6.6.
            let path = system::DescriptorPath::new(descriptor);
            rustix::fs::chmod(path.as_c_str(), super::create::mode(mode)).map_err(errno)
        }
        changed => changed.map_err(errno),
    }
}

fn set_times(descriptor: BorrowedFd<'_>, atime: Option<SetTime>, mtime: Option<SetTime>) -> Result<()> {
    let special = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let value = |time| match time {
        None => special(UTIME_OMIT),
        Some(SetTime::Now) => special(UTIME_NOW),
        Some(SetTime::To(time)) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
    };
    let times = Timestamps { last_access: value(atime), last_modification: value(mtime) };
    rustix::fs::utimensat(descriptor, c"", &times, AtFlags::EMPTY_PATH).map_err(errno)
}

/// Takes the set-id bits of a file away as Linux does when somebody without CAP_FSETID writes to it, and with
/// `capabilities` its file capabilities too, which Linux clears by itself at every write. May leave the thread with the
/// server's credentials.
pub fn clear_privileges(node: &Node, descriptor: BorrowedFd<'_>, capabilities: bool) -> Result<()> {
    if node.file_kind() != FileKind::Regular {
        return Ok(());
    }
    let mode = Status::of_descriptor(descriptor)?.mode();
    let executable_by_group = mode & libc::S_IXGRP != 0;
    let cleared = mode & !libc::S_ISUID & if executable_by_group { !libc::S_ISGID } else { !0 };
    if cleared != mode {
        node.tree().credentials.become_server()?;
        set_mode(descriptor, cleared)?;
    }
    if capabilities {
        node.tree().credentials.become_server()?;
        let path = system::DescriptorPath::new(descriptor);
        match rustix::fs::removexattr(path.as_c_str(), c"security.capability").map_err(errno) {
            // A server without the right to has none to give away.
            Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP | Errno::EPERM) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
