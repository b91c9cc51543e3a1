//! Filling the data into a metadata-only copy.
//!
//! They are written into the copy itself, so that its other names, its locks and its identity stay. They are invisible
//! until the mark is removed. What could be visible are the times: the name of an entry in the work directory encodes
//! those to restore ([`EntryPurpose::Times`]).

use vnode::{
    AllocateMode, Attributes, Caller, Errno, OpenFile, OpenFileRef, OpenFlags, Result, SetAttributes, SetTime,
    VnodeRef, XattrMode,
};

use crate::copies::copy_data;
use crate::union::branch::entry_purpose::EntryPurpose;
use crate::union::branch::lease::open_without_wait;
use crate::union::branch::metacopy_mark;
use crate::union::branch::metacopy_mark::is_marked;
use crate::union::branch::verified::VerifiedOperations;
use crate::union::copy_up::extent::TruncateStep;
use crate::union::state::instance::Instance;

const CAPABILITY: &[u8] = b"security.capability";
const SET_ID: u32 = 0o6000;

/// Fills in all data, as the writer: the server, at the expense of the caller that needs them.
///
/// # Errors
/// Errors from copying: then the copy is unchanged.
pub(crate) fn fill(writer: &Caller, copy: &Instance, data: &VnodeRef) -> Result<()> {
    let server = Caller::server();
    let Instance { member, vnode, .. } = copy;
    let before = vnode.getattr(&server)?;
    let capability = capability(vnode)?;
    let (work, note) = (member.work.directory()?, member.work.unused_name_for(EntryPurpose::Times(before.mtime)));
    // A file without a name does not exist after a crash.
    let is_noted = work.link_verified(writer, vnode, note.as_name()).is_ok();
    let filled = write(writer, vnode, data, &before, before.size);
    let restored = restore(vnode, &before, capability);
    let done = filled.and(restored).and_then(|()| metacopy_mark::remove(vnode));
    if is_noted {
        member.work.discard(&note);
    }
    done
}

/// Truncates the copy, which is the requested operation, and fills in what is left. Users see the truncation from the first
/// step, which is the requester's own if `first` is given.
///
/// # Errors
/// Errors from copying: then the copy is unchanged, as far as storage permits.
pub(crate) fn truncate(
    writer: &Caller,
    copy: &Instance,
    data: Option<&VnodeRef>,
    size: u64,
    first: Option<TruncateStep<'_>>,
) -> Result<()> {
    let before = copy.vnode.getattr(&Caller::server())?;
    let done = truncate_copy(writer, &copy.vnode, data, size, first);
    // As long as the mark exists, all data are still where they were.
    if done.is_err() && is_marked(&copy.vnode) == Ok(true) {
        let (size, mtime) = (Some(before.size), Some(SetTime::To(before.mtime)));
        let _ = copy.vnode.setattr(&Caller::server(), &SetAttributes { size, mtime, ..SetAttributes::default() });
    }
    done
}

fn truncate_copy(
    writer: &Caller,
    copy: &VnodeRef,
    data: Option<&VnodeRef>,
    size: u64,
    first: Option<TruncateStep<'_>>,
) -> Result<()> {
    let server = Caller::server();
    match first {
        Some(truncate_step) => truncate_step(copy)?,
        None => drop(copy.setattr(&server, &SetAttributes { size: Some(size), ..SetAttributes::default() })?),
    }
    if let Some(data) = data {
        write(writer, copy, data, &copy.getattr(&server)?, size)?;
    }
    metacopy_mark::remove(copy)
}

/// Returns whether a truncated copy looks as after truncate(2) except for its data: nothing else changes with these.
pub(crate) fn can_truncate(copy: &Instance, size: u64) -> Result<bool> {
    let attributes = copy.vnode.getattr(&Caller::server())?;
    Ok(size < attributes.size && !loses_privileges(&copy.vnode, &attributes)?)
}

/// Returns whether a write clears privileges of the file that could not be restored atomically.
pub(crate) fn loses_privileges(file: &VnodeRef, attributes: &Attributes) -> Result<bool> {
    Ok(attributes.mode & SET_ID != 0 || capability(file)?.is_some())
}

fn write(writer: &Caller, copy: &VnodeRef, data: &VnodeRef, before: &Attributes, size: u64) -> Result<()> {
    let server = Caller::server();
    // Nothing is changed before the source is open.
    let from = open_without_wait(data, &server, OpenFlags::READ)?;
    let file = open(writer, copy, before)?;
    if before.blocks > 0 {
        // Possibly left from before a crash: present holes must stay holes.
        empty(&*file, before.size);
    }
    let written = copy_data(writer, &*from, &*file, size).and_then(|()| file.fsync(&server, false));
    if written.is_err() {
        empty(&*file, before.size);
    }
    written
}

/// An unprivileged server may have to grant itself write access to what it owns.
fn open(writer: &Caller, copy: &VnodeRef, before: &Attributes) -> Result<OpenFileRef> {
    let server = Caller::server();
    let mode = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    match open_without_wait(copy, writer, OpenFlags::READ_WRITE) {
        Err(Errno::EACCES) => {
            copy.setattr(&server, &mode(before.mode | 0o600))?;
            let opened = open_without_wait(copy, writer, OpenFlags::READ_WRITE);
            copy.setattr(&server, &mode(before.mode))?;
            opened
        }
        opened => opened,
    }
}

/// Frees space. If that is not possible, the contents are invisible all the same.
fn empty(file: &dyn OpenFile, size: u64) {
    let hole = AllocateMode::from_bits(AllocateMode::PUNCH_HOLE.bits() | AllocateMode::KEEP_SIZE.bits());
    let _ = file.allocate(&Caller::server(), hole, 0, size);
}

/// Restores what writing has cleared from a file.
fn restore(file: &VnodeRef, before: &Attributes, capability: Option<Vec<u8>>) -> Result<()> {
    let server = Caller::server();
    if file.getattr(&server)?.mode != before.mode {
        file.setattr(&server, &SetAttributes { mode: Some(before.mode), ..SetAttributes::default() })?;
    }
    if let Some(value) = capability {
        file.setxattr(&server, CAPABILITY, &value, XattrMode::Set)?;
    }
    let times = SetAttributes { mtime: Some(SetTime::To(before.mtime)), ..SetAttributes::default() };
    file.setattr(&server, &times).map(drop)
}

fn capability(file: &VnodeRef) -> Result<Option<Vec<u8>>> {
    match file.getxattr(&Caller::server(), CAPABILITY) {
        Ok(value) => Ok(Some(value)),
        // An empty capability can be set but not read.
        Err(Errno::EINVAL) => Ok(Some(Vec::new())),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}
