//! Finishes renames: removes what the record of a rename names, at once or in the union that finds the record.

use vnode::{Caller, Result};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::objects::{self, sync_directory};
use crate::union::branch::rename_records::{RecordContent, RecordedObject, RenameRecord, records};
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout;
use crate::union::operations::remove::remove_marked_directory;
use crate::union::state::Union;

impl Union {
    /// Finishes interrupted renames in a branch.
    pub(crate) fn recover_in(&self, member: &BranchMember) -> Result<()> {
        let work = member.work.directory()?;
        for (name, record) in records(&work)? {
            let is_done = match record {
                RecordContent::Complete(record) => self.finish_rename(member, &record)?,
                RecordContent::Incomplete => true,
                RecordContent::LaterVersion => {
                    let (branch, record) = (&member.base.label, String::from_utf8_lossy(name.as_bytes()));
                    tracing::warn!(branch, %record, "a later version of plyfs has begun a rename, and has to finish it");
                    false
                }
            };
            if is_done {
                objects::remove_tree(&work, name.as_name())?;
            }
        }
        Ok(())
    }

    /// Completes the work of a record; returns whether nothing is left.
    fn finish_rename(&self, member: &BranchMember, record: &RenameRecord) -> Result<bool> {
        if record.moved.find(member)?.is_none() {
            return Ok(true);
        }
        let mut is_all = true;
        for removed in &record.removed {
            match self.branches.newest_of(removed.branch) {
                Some(other) => {
                    remove_recorded(&other, removed)?;
                    if other.is_unordered_with(member) {
                        sync_removal(&other, removed)?;
                    }
                }
                // The branch is not in the union now; when it is again, this remains to be done.
                None => is_all = false,
            }
        }
        if let Some(device) = &record.device
            && let Some(directory) = device.directory_in(member)?
        {
            member.work.place_user_device(&directory, device.name.as_name(), &Caller::server(), None)?;
        }
        Ok(is_all)
    }
}

/// Synchronizes the removal of an object to disk.
pub(crate) fn sync_removal(member: &BranchMember, object: &RecordedObject) -> Result<()> {
    object.directory_in(member)?.map_or(Ok(()), |directory| sync_directory(&directory))
}

/// Removes an object if it is still there.
pub(crate) fn remove_recorded(member: &BranchMember, object: &RecordedObject) -> Result<()> {
    match object.find(member)? {
        Some((directory, _)) if object.leaves_device => {
            match member.work.replace_by_device(&directory, object.name.as_name()) {
                Err(error) if whiteout::is_unsupported(error) => {
                    member.whiteouts.add_file(&directory, object.name.as_name())?;
                    remove_marked_directory(member, &directory, object.name.as_name())
                }
                done => done,
            }
        }
        Some((directory, true)) => remove_marked_directory(member, &directory, object.name.as_name()),
        Some((directory, false)) => directory.unlink_verified(&Caller::server(), object.name.as_name()),
        None => Ok(()),
    }
}
