//! Files that the kernel keeps writing directly while a snapshot is taken: a copy of each takes its place in the layer that is
//! frozen, and the file moves to the new one.
//!
//! Between these two steps the file's only name is in the work directory, where leftovers of an interrupted server are removed.
//! So before the snapshot takes effect, a record there lists the locations of all of them. The next union to use the branch
//! puts such a file back: then the snapshot has everything that was written to it up to the interruption, and nothing of that
//! is lost.

use std::sync::Arc;

use vnode::{Caller, Errno, Name, NameBuf, RenameMode, Result, Vnode, VnodeRef};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::direct_file_record;
use crate::union::branch::direct_file_record::FileLocation;
use crate::union::branch::entry_purpose::EntryPurpose;
use crate::union::branch::objects::keeping_times;
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout;
use crate::union::copy_up::copy_consistently;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation};

/// A file that is still being written, and its copy for a snapshot.
pub(crate) struct DirectFileCopy {
    pub(crate) node: Arc<Node>,
    member: Arc<BranchMember>,
    pub(crate) copy: NameBuf,
}

impl DirectFileCopy {
    /// # Errors
    /// `EMLINK` for a file with several names, `EBUSY` for one that is never unchanged for long enough, and errors from
    /// copying.
    pub(crate) fn new(node: Arc<Node>, member: &Arc<BranchMember>) -> Result<Self> {
        node.find_location()?;
        let original = node.leftmost();
        if original.vnode.getattr(&Caller::server())?.nlink > 1 {
            return Err(Errno::EMLINK);
        }
        let copy = copy_consistently(&original, member, &node.identity)?;
        Ok(Self { node, member: Arc::clone(member), copy })
    }

    /// Moves the file to the new layer, and the copy to its place. Nothing has changed if that fails.
    fn move_to_layer(&self, new: &Arc<BranchMember>) -> Result<()> {
        let NodeLocation::At(above) = self.node.location() else { return Ok(()) };
        let server = Caller::server();
        let (stored, old) = (above.stored.as_name(), above.directory.instance_in(&self.member).ok_or(Errno::ESTALE)?);
        let new_directory = above.directory.ensure_directory_in(&server, new)?;
        keeping_times(&old, || self.swap_with_copy(&old, &new_directory, stored))?;
        let Instance { vnode, ino, .. } = self.node.leftmost();
        self.node.set_instances(vec![Instance::new(new, vnode, ino)]);
        Ok(())
    }

    /// Moves the file back to its place from the new layer, if it went there, and the copy out of sight; returns whether both
    /// are so.
    pub(crate) fn move_back_from(&self, new: &Arc<BranchMember>) -> bool {
        let Instance { member, vnode, ino, .. } = self.node.leftmost();
        if !Arc::ptr_eq(&member, new) {
            return true;
        }
        let NodeLocation::At(above) = self.node.location() else { return false };
        let locations = (above.directory.instance_in(&self.member), above.directory.instance_in(new));
        let (Some(old), Some(new)) = locations else { return false };
        let is_back = keeping_times(&old, || self.undo_swap(&old, &new, above.stored.as_name())).is_ok();
        if is_back {
            self.node.set_instances(vec![Instance::new(&self.member, vnode, ino)]);
        }
        is_back
    }

    /// Undoes [`DirectFileCopy::swap_with_copy`].
    fn undo_swap(&self, old: &VnodeRef, new: &VnodeRef, stored: Name<'_>) -> Result<()> {
        let (server, work, copy) = (Caller::server(), self.member.work.directory()?, self.copy.as_name());
        new.rename_verified(&server, stored, &work, copy, RenameMode::NoReplace)?;
        match work.rename_verified(&server, copy, old, stored, RenameMode::Exchange) {
            Err(error) if whiteout::is_unsupported(error) => {
                let aside = self.member.work.unused_name();
                old.rename_verified(&server, stored, &work, aside.as_name(), RenameMode::NoReplace)?;
                work.rename_verified(&server, copy, old, stored, RenameMode::NoReplace)?;
                work.rename_verified(&server, aside.as_name(), &work, copy, RenameMode::NoReplace)
            }
            exchanged => exchanged,
        }
    }

    /// Gives the copy the file's name in the old layer, and the file its name in the new one.
    fn swap_with_copy(&self, old: &VnodeRef, new: &VnodeRef, stored: Name<'_>) -> Result<()> {
        let (server, work, copy) = (Caller::server(), self.member.work.directory()?, self.copy.as_name());
        // In one step: whatever happens then, the snapshot has its copy.
        let exchange = || work.rename_verified(&server, copy, old, stored, RenameMode::Exchange);
        match exchange() {
            Err(error) if whiteout::is_unsupported(error) => {
                old.rename_verified(&server, stored, new, stored, RenameMode::NoReplace)?;
                return work.rename_verified(&server, copy, old, stored, RenameMode::NoReplace).inspect_err(|_| {
                    let _ = new.rename_verified(&server, stored, old, stored, RenameMode::NoReplace);
                });
            }
            exchanged => exchanged?,
        }
        work.rename_verified(&server, copy, new, stored, RenameMode::NoReplace).inspect_err(|_| {
            // Otherwise the file that programs write would have no name.
            let _ = exchange();
        })
    }
}

/// Moves all files to a new layer.
///
/// # Errors
/// The path of the first that cannot move, and the error.
pub(crate) fn move_to_layer(
    new: &Arc<BranchMember>,
    kept: &[DirectFileCopy],
) -> std::result::Result<(), (String, Errno)> {
    kept.iter().try_for_each(|kept| {
        let path = || String::from_utf8_lossy(&kept.node.path().unwrap_or_default()).into_owned();
        kept.move_to_layer(new).map_err(|error| (path(), error))
    })
}

/// Records the locations of the files that are about to change places with their copies; returns the name of the record in the
/// work directory, or `None` if there are no files.
pub(crate) fn write_record(member: &BranchMember, kept: &[DirectFileCopy]) -> Result<Option<NameBuf>> {
    if kept.is_empty() {
        return Ok(None);
    }
    let root = member.root.path()?;
    let mut locations = Vec::with_capacity(kept.len());
    for one in kept {
        let NodeLocation::At(above) = one.node.location() else { continue };
        let directory = above.directory.instance_in(&one.member).ok_or(Errno::ESTALE)?.path()?;
        let directory = directory.strip_prefix(&root[..]).ok_or(Errno::ESTALE)?.to_vec();
        let (copy, name, ino) = (one.copy.clone(), above.stored, one.node.leftmost().ino);
        locations.push(FileLocation { copy, directory, name, ino });
    }
    let (work, name) = (member.work.directory()?, member.work.unused_name_for(EntryPurpose::DirectFiles));
    let written = direct_file_record::write_record(&work, name.as_name(), &locations);
    if written.is_err() {
        member.work.discard(&name);
    }
    written.map(|()| Some(name))
}
