//! A rename in one branch: the step that decides, and the steps before and after it.

use std::sync::Arc;

use vnode::{Caller, Errno, FileKind, InodeNumber, NameBuf, RenameMode, Result, VnodeRef};

use super::endpoint::RenameEndpoint;
use super::recovery;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::objects::sync_directory;
use crate::union::branch::rename_records::{self, RenameRecord};
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout::{self, WhiteoutFormat};
use crate::union::branch::write_order::are_unordered;
use crate::union::lookup::search::LookupResult;
use crate::union::operations::remove::{ReachedObject, reachable_objects};
use crate::union::state::instance::Instance;

/// A completed rename.
struct CompletedRename {
    /// The target's former objects in higher branches, nearest first.
    left: Vec<rename_records::RecordedObject>,
    /// Record of these, and of those in lower branches.
    record: Option<NameBuf>,
}

/// A rename in one branch.
pub(crate) struct BranchRename<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) source: RenameEndpoint<'a>,
    pub(crate) target: RenameEndpoint<'a>,
    /// The source's directory in the branch.
    pub(crate) from: &'a VnodeRef,
    /// The target's directory in the branch.
    pub(crate) to: &'a VnodeRef,
    pub(crate) member: &'a Arc<BranchMember>,
    /// A user's device that is a whiteout, out of sight so far, which takes the source's place.
    pub(crate) device: Option<&'a NameBuf>,
}

impl BranchRename<'_> {
    /// Renames the object with this inode number, atomically in the branch, with the steps needed before and after. Returns the
    /// record, if any, which must be kept until the target is removed from lower branches too.
    pub(crate) fn run(
        &self,
        ino: InodeNumber,
        victim: Option<&LookupResult>,
        leaves_whiteout: bool,
    ) -> Result<Option<NameBuf>> {
        // Not as the caller, who may lack permission to replace what belongs to the server.
        let had_device = whiteout::displace_device(self.to, self.target.stored)?;
        let moved = self.rename_recorded(ino, victim, leaves_whiteout);
        if moved.is_err() && had_device {
            whiteout::restore_device(self.to, self.target.stored);
        }
        let CompletedRename { left, mut record } = moved?;
        let mut is_on_disk = true;
        for object in &left {
            let removed = self.member_of(object).and_then(|member| self.remove_in(&member, object));
            is_on_disk &= removed.unwrap_or(true);
            if let Err(error) = removed {
                // Users still see the old target, so the source must reappear. If that fails, the next union of these branches
                // finds the record.
                if self.undo().is_ok() {
                    record.iter().for_each(|record| self.member.work.discard(record));
                }
                return Err(error);
            }
        }
        self.member.uncover(self.to, self.target.stored);
        if !is_on_disk {
            // The next union of these branches drops it.
            record = None;
        }
        Ok(record)
    }

    /// Removes the branch's entry of the target if it is another name of this file, hidden by what users see there: a rename of
    /// one name of a file to another does nothing (rename(2)), and the source would stay.
    pub(crate) fn remove_hidden_name(&self, file: &VnodeRef) -> Result<()> {
        match self.to.lookup(&Caller::server(), self.target.stored) {
            Ok(entry) if entry.vnode.handle() == file.handle() => {
                self.to.unlink_verified(&Caller::server(), self.target.stored)
            }
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the target's former object from a higher branch, after its replacement is on disk. Returns whether the removal
    /// is on disk as well: only then may the record be dropped.
    fn remove_in(&self, member: &BranchMember, object: &rename_records::RecordedObject) -> Result<bool> {
        if !member.is_unordered_with(self.member) {
            return recovery::remove_recorded(member, object).map(|()| true);
        }
        self.sync_target()?;
        recovery::remove_recorded(member, object)?;
        Ok(recovery::sync_removal(member, object).is_ok())
    }

    /// Puts the device into the source's place. If that fails, the next union of these branches finds the record.
    pub(crate) fn leave_device(&self) -> Result<()> {
        let Some(device) = self.device else { return Ok(()) };
        self.member.work.place_user_device(self.from, self.source.stored, self.caller, Some(device))
    }

    /// Synchronizes the rename to disk.
    pub(crate) fn sync_target(&self) -> Result<()> {
        sync_directory(self.to)?;
        self.target.directory.sync_arrival(self.member)
    }

    /// Renames after recording what must then be removed. Objects in higher branches are left to the caller.
    fn rename_recorded(
        &self,
        ino: InodeNumber,
        victim: Option<&LookupResult>,
        leaves_whiteout: bool,
    ) -> Result<CompletedRename> {
        let (left, right) = victim.map_or(Ok(Default::default()), |victim| self.other_objects(victim))?;
        let all = [&left[..], &right[..]].concat();
        let record = self.write_record(ino, &all)?;
        match self.rename(leaves_whiteout) {
            Ok(()) => return Ok(CompletedRename { left, record }),
            Err(error) => {
                if self.has_not_arrived(ino) {
                    record.iter().for_each(|record| self.member.work.discard(record));
                }
                let is_directory = victim.is_some_and(|victim| victim.kind() == FileKind::Directory);
                if !is_directory || !matches!(error, Errno::ENOTEMPTY | Errno::EEXIST) {
                    return Err(error);
                }
            }
        }
        // It appears empty, but contains marks.
        let other = self.to.lookup(&Caller::server(), self.target.stored)?.attributes.ino;
        let mut emptied = rename_records::RecordedObject::new(self.member, self.from, self.source.stored, other);
        emptied.leaves_device = leaves_whiteout && !whiteout::can_be_beside(self.source.stored, self.format());
        let hides_source = leaves_whiteout
            && !emptied.leaves_device
            && self.member.whiteouts.add_file(self.from, self.source.stored)?;
        let record = self.write_record(ino, &[&all[..], std::slice::from_ref(&emptied)].concat())?;
        let give_up = |error| {
            record.iter().for_each(|record| self.member.work.discard(record));
            if hides_source {
                let _ = whiteout::remove(self.from, self.source.stored);
            }
            error
        };
        match self.exchange() {
            Err(error) if whiteout::is_unsupported(error) => {
                give_up(error);
                return self.rename_to_emptied(ino, left, &all, leaves_whiteout);
            }
            exchanged => exchanged.map_err(give_up)?,
        }
        if let Err(error) = recovery::remove_recorded(self.member, &emptied) {
            // Everything is undone; if it cannot be, the record stays.
            return Err(if self.exchange().is_ok() { give_up(error) } else { error });
        }
        Ok(CompletedRename { left, record })
    }

    /// Renames to the place of a directory that appears empty, in a branch that cannot exchange two names: that directory is
    /// removed first. If that is the last step that is done, an empty directory is missing, and nothing is revealed in its
    /// place.
    fn rename_to_emptied(
        &self,
        ino: InodeNumber,
        left: Vec<rename_records::RecordedObject>,
        others: &[rename_records::RecordedObject],
        leaves_whiteout: bool,
    ) -> Result<CompletedRename> {
        let (server, target) = (Caller::server(), self.target.stored);
        let hides = self.target.reveals_lower(self.member)? && self.member.whiteouts.add_file(self.to, target)?;
        let uncover = || if hides { whiteout::remove(self.to, target) } else { Ok(()) };
        let emptied = self.member.work.stash(self.to, target).inspect_err(|_| {
            let _ = uncover();
        })?;
        let renamed = self.write_record(ino, others).and_then(|record| {
            let renamed = self.rename(leaves_whiteout);
            renamed.inspect_err(|_| record.iter().for_each(|record| self.member.work.discard(record)))?;
            Ok(record)
        });
        match renamed {
            Ok(record) => {
                self.member.work.discard(&emptied);
                Ok(CompletedRename { left, record })
            }
            Err(error) => {
                // Users see it as it was. If that cannot be restored, whatever hid its lower part still does.
                let work = self.member.work.directory()?;
                let mode = RenameMode::NoReplace;
                let _ =
                    work.rename_verified(&server, emptied.as_name(), self.to, target, mode).and_then(|()| uncover());
                Err(error)
            }
        }
    }

    /// Returns whether the object with this inode number is certainly not at the target; if in doubt, the record has to stay.
    fn has_not_arrived(&self, ino: InodeNumber) -> bool {
        match self.to.lookup(&Caller::server(), self.target.stored) {
            Ok(entry) => entry.attributes.ino != ino,
            Err(error) => error == Errno::ENOENT,
        }
    }

    fn exchange(&self) -> Result<()> {
        let (source, target) = (self.source.stored, self.target.stored);
        // The caller may rename the source over the target, which requires no permission to move the target.
        self.from.rename_verified(&Caller::server(), source, self.to, target, RenameMode::Exchange)
    }

    /// Renames in one step, even if a whiteout has to stay.
    fn rename(&self, leaves_whiteout: bool) -> Result<()> {
        let (source, target) = (self.source.stored, self.target.stored);
        if !leaves_whiteout {
            return self.from.rename_verified(self.caller, source, self.to, target, RenameMode::Replace);
        }
        if !whiteout::can_be_beside(source, self.format()) {
            match self.from.rename_verified(self.caller, source, self.to, target, RenameMode::Whiteout) {
                Err(error) if whiteout::is_unsupported(error) => {}
                done => return done,
            }
        }
        let is_new = self.member.whiteouts.add_file(self.from, source)?;
        self.from.rename_verified(self.caller, source, self.to, target, RenameMode::Replace).inspect_err(|_| {
            // It is visible beside its whiteout; one that was there before has its reasons.
            if is_new {
                let _ = whiteout::remove(self.from, source);
            }
        })
    }

    /// Records what must be removed when the object with this inode number has its new name.
    fn write_record(&self, ino: InodeNumber, removed: &[rename_records::RecordedObject]) -> Result<Option<NameBuf>> {
        if removed.is_empty() && self.device.is_none() {
            return Ok(None);
        }
        let moved = rename_records::RecordedObject::new(self.member, self.to, self.target.stored, ino);
        let device = self.device.map(|_| {
            rename_records::RecordedObject::new(self.member, self.from, self.source.stored, InodeNumber::new(0))
        });
        RenameRecord { moved, removed: removed.to_vec(), device }.write(self.member).map(Some)
    }

    /// The target's objects in other branches that have to be removed when it is replaced: in a higher branch one would hide
    /// the replacement, and in a lower branch it would count as a name of its file.
    fn other_objects(
        &self,
        victim: &LookupResult,
    ) -> Result<(Vec<rename_records::RecordedObject>, Vec<rename_records::RecordedObject>)> {
        let (target, own) = (self.target, self.target.position(self.member)?);
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for instance in target.directory.instances().iter().rev() {
            let position = target.position(&instance.member)?;
            let is_counted = Arc::ptr_eq(&instance.member, &victim.instances[0].member)
                && victim.kind() != FileKind::Directory
                && victim.attributes.nlink > 1;
            if position == own || (position > own && !is_counted) || !target.may_change(&instance.member) {
                continue;
            }
            match instance.vnode.lookup(&Caller::server(), target.stored) {
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
                Ok(entry) => {
                    let found = rename_records::RecordedObject::new(
                        &instance.member,
                        &instance.vnode,
                        target.stored,
                        entry.attributes.ino,
                    );
                    if position < own { left.push(found) } else { right.push(found) }
                }
            }
        }
        Ok((left, right))
    }

    fn member_of(&self, object: &rename_records::RecordedObject) -> Result<Arc<BranchMember>> {
        self.target.directory.union.branches.newest_of(object.branch).ok_or(Errno::ESTALE)
    }

    fn undo(&self) -> Result<()> {
        let (server, source, target) = (Caller::server(), self.source.stored, self.target.stored);
        whiteout::displace_device(self.from, source)
            .and_then(|_| self.to.rename_verified(&server, target, self.from, source, RenameMode::NoReplace))
            .map(|()| self.member.uncover(self.from, source))
    }

    /// Renames the other objects that had the source's name, from the lowest branch up (Unionfs's `DELETE_ALL`). All of them
    /// are already hidden by the whiteout and the target, so users see no step of this; once it is done, the whiteout is
    /// unnecessary.
    pub(crate) fn rename_lower_objects(&self) {
        let Ok(right) = self.source.right_of(self.member) else { return };
        let mut is_synchronized = true;
        let (reached, _) = reachable_objects(&right, self.source.stored);
        for (instance, reached) in reached.into_iter().rev() {
            let is_other = matches!(reached, ReachedObject::Other);
            if is_other && self.target.directory.union.branches.may_change(&instance.member) {
                let is_unordered = are_unordered((&instance.member, &instance.vnode), (self.member, self.to));
                if is_unordered && self.sync_target().is_err() {
                    // The object that hides it is not on disk.
                    return;
                }
                // An error is treated like a read-only branch.
                let _ = self.rename_lower_object(instance);
                is_synchronized &= !is_unordered || sync_directory(&instance.vnode).is_ok();
            }
        }
        if is_synchronized && self.source.reveals_lower(self.member) == Ok(false) {
            let _ = whiteout::remove_any(self.from, self.source.stored);
        }
    }

    fn rename_lower_object(&self, instance: &Instance) -> Result<()> {
        let (server, source, target) = (Caller::server(), self.source.stored, self.target.stored);
        // A directory at the target's name may be part of a moved one: nothing may be put above it.
        let right = self.target.right_of(self.member)?;
        let may_be_directory = |instance: &Instance| match instance.vnode.lookup(&server, target) {
            Ok(entry) => entry.attributes.is_directory(),
            Err(error) => error != Errno::ENOENT,
        };
        match self.target.directory.instance_in(&instance.member).filter(|_| !right.iter().any(may_be_directory)) {
            Some(to) => {
                instance.vnode.rename_verified(&server, source, &to, target, RenameMode::Replace)?;
                // It hides what the whiteout has hidden.
                whiteout::remove(&to, target)
            }
            None => instance.vnode.unlink_verified(&server, source),
        }
    }

    fn format(&self) -> WhiteoutFormat {
        self.source.directory.union.settings.whiteouts
    }
}
