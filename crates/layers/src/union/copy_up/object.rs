//! Copies of objects, completed in the work directory of a branch.

use vnode::{
    Attributes, Caller, Creation, Errno, FileKind, Name, NameBuf, OpenFlags, Result, SetAttributes, SetTime, VnodeRef,
};

use crate::copies::copy_data;

use super::attributes::{copy_attributes, remove_surplus};
use super::extent::{DataExtent, MAX_ATTEMPTS};
use crate::union::branch::branches::BranchMember;
use crate::union::branch::entry_purpose::EntryPurpose;
use crate::union::branch::identity::{Identity, UNCOUNTED_NAMES};
use crate::union::branch::lease::open_without_wait;
use crate::union::branch::losses::Losses;
use crate::union::branch::metacopy_mark::{NewMetacopyMark, is_marked};
use crate::union::branch::whiteout;
use crate::union::branch::whiteout_device;
use crate::union::settings::CopyPermissions;
use crate::union::state::instance::Instance;

/// Makes a copy in the work directory of a branch, with an identity, of a file that others may be writing: the copy has the
/// state of the file at one point in time.
///
/// # Errors
/// `EBUSY` if it is written during every attempt to read it.
pub(crate) fn copy_consistently(original: &Instance, target: &BranchMember, identity: &Identity) -> Result<NameBuf> {
    let server = Caller::server();
    for _ in 0..MAX_ATTEMPTS {
        let before = original.vnode.getattr(&server)?;
        let CompletedCopy { name, copy, .. } = copy_of(original, target, &CopyParameters::whole())?;
        let after = original.vnode.getattr(&server)?;
        if (before.ctime, before.size) == (after.ctime, after.size) {
            return identity.store_origin(&server, &copy, UNCOUNTED_NAMES).map(|_| name);
        }
        target.work.discard(&name);
    }
    Err(Errno::EBUSY)
}

/// Parameters of a copy.
pub(crate) struct CopyParameters {
    pub(crate) extent: DataExtent,
    /// The instance that has the original's data, if the original is a metadata-only copy itself.
    pub(crate) data: Option<Instance>,
    /// Mark that the copy gets instead of data, if possible.
    pub(crate) mark: Option<NewMetacopyMark>,
    /// Permissions that it gets instead of the original's.
    pub(crate) rights: Option<CopyPermissions>,
    /// Whether objects created in the directory inherit access control lists.
    pub(crate) inherits: bool,
    /// Writer of the copy: the server, at the expense of the caller that needs it, and as long as that caller waits.
    pub(crate) writer: Caller,
}

impl CopyParameters {
    /// A copy like the original, for the server.
    pub(crate) fn whole() -> Self {
        Self {
            extent: DataExtent::All,
            data: None,
            mark: None,
            rights: None,
            inherits: false,
            writer: Caller::server(),
        }
    }
}

/// A copy in the work directory of a branch.
pub(crate) struct CompletedCopy {
    pub(crate) name: NameBuf,
    pub(crate) copy: VnodeRef,
    /// Attributes that the branch does not preserve.
    pub(crate) lost: Losses,
}

/// Makes a copy in the work directory of a branch, complete except for its identity.
pub(crate) fn copy_of(
    original: &Instance,
    target: &BranchMember,
    parameters: &CopyParameters,
) -> Result<CompletedCopy> {
    let (work, name) = (target.work.directory()?, target.work.unused_name_for(EntryPurpose::Copy));
    match copy_into(&work, name.as_name(), original, parameters) {
        Ok((copy, lost)) => Ok(CompletedCopy { name, copy, lost }),
        Err(error) => {
            target.work.discard(&name);
            Err(error)
        }
    }
}

/// Makes a copy of anything but a directory at an unused name, complete except for its identity; returns the copy, and what the
/// branch does not preserve. `inherits` says that objects created in the directory inherit access control lists.
///
/// # Errors
/// Errors from copying; `EIO` for a metadata-only copy.
pub(crate) fn copy_object(
    directory: &VnodeRef,
    name: Name<'_>,
    original: &Instance,
    inherits: bool,
) -> Result<(VnodeRef, Losses)> {
    if is_marked(&original.vnode)? {
        return Err(Errno::EIO);
    }
    copy_into(directory, name, original, &CopyParameters { inherits, ..CopyParameters::whole() })
}

/// Gives a new copy its attributes. As long as it has those that its directory gives it, only its owner may access it.
fn apply_attributes(parameters: &CopyParameters, original: &VnodeRef, copy: &VnodeRef) -> Result<Losses> {
    if parameters.inherits {
        remove_surplus(original, copy)?;
    }
    copy_attributes(&parameters.writer, original, copy, parameters.rights)
}

fn copy_into(
    work: &VnodeRef,
    name: Name<'_>,
    original: &Instance,
    parameters: &CopyParameters,
) -> Result<(VnodeRef, Losses)> {
    let server = Caller::server();
    let from = &original.vnode;
    let attributes = from.getattr(&server)?;
    match attributes.kind {
        FileKind::Regular => {
            let size = match parameters.extent {
                DataExtent::UpTo(size) if size < attributes.size && can_truncate_copy(from, &attributes)? => size,
                _ => attributes.size,
            };
            let open = || {
                open_without_wait(parameters.data.as_ref().map_or(from, |data| &data.vnode), &server, OpenFlags::READ)
            };
            // Nothing is created before the source is open.
            let opened = (parameters.mark.is_none() && size > 0).then(open).transpose()?;
            let creation = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
            let made = work.create(&parameters.writer, name, &creation)?;
            let has_mark =
                parameters.mark.as_ref().map_or(Ok(false), |mark| mark.set(&parameters.writer, &made.entry.vnode))?;
            if has_mark {
                made.file.truncate(&parameters.writer, size)?;
            } else if size > 0 {
                let data = opened.map_or_else(open, Ok)?;
                copy_data(&parameters.writer, &*data, &*made.file, size)?;
            }
            let lost = apply_attributes(parameters, from, &made.entry.vnode)?;
            if size < attributes.size {
                let changed = SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() };
                made.entry.vnode.setattr(&server, &changed)?;
            }
            parameters.writer.cancellation().check()?;
            made.file.fsync(&server, false)?;
            Ok((made.entry.vnode, lost))
        }
        FileKind::Symlink => {
            let made = work.symlink(&parameters.writer, name, &from.readlink(&server)?)?.vnode;
            let lost = apply_attributes(parameters, from, &made)?;
            Ok((made, lost))
        }
        FileKind::Directory => Err(Errno::EISDIR),
        kind => {
            let made = work.mknod(&parameters.writer, name, kind, 0o600, attributes.rdev)?.vnode;
            if whiteout_device::has_number(&attributes) {
                whiteout::mark_user_device(&made)?;
            }
            let lost = apply_attributes(parameters, from, &made)?;
            Ok((made, lost))
        }
    }
}

/// Returns whether a copy with less of the data looks like the truncated original, even to those who find only the copy: no
/// other attribute changes with the data, and no other name leads to the copy before it is in place.
fn can_truncate_copy(original: &VnodeRef, attributes: &Attributes) -> Result<bool> {
    const SET_ID: u32 = 0o6000;
    if attributes.mode & SET_ID != 0 || attributes.nlink > 1 {
        return Ok(false);
    }
    match original.getxattr(&Caller::server(), b"security.capability") {
        Ok(_) => Ok(false),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(true),
        Err(error) => Err(error),
    }
}
