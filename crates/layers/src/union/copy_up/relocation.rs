//! Relocation: an object moves to a given branch, higher or lower, without a moment in which users do not see it.
//!
//! A move to the left is a copy-up. A move to the right ends with the removal of the original, which reveals the copy; after a crash
//! before that, the copy is hidden below the original, which has its identity: the next attempt replaces it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{Caller, Errno, FileKind, Name, RenameMode, Result, VnodeRef};

use super::attributes::{check_complete, is_near};
use super::extent::DataExtent;
use super::object::{CompletedCopy, CopyParameters, copy_of};
use crate::union::branch::branches::BranchMember;
use crate::union::branch::identity::UNCOUNTED_NAMES;
use crate::union::branch::objects::{self, keeping_times, sync_directory};
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout;
use crate::union::state::guards::NameChanges;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation, ParentEntry};

impl Node {
    /// Moves anything but a directory to a branch; returns whether it was not there yet. The caller holds an operation guard.
    ///
    /// # Errors
    /// `EXDEV` if the object cannot be in that branch, has several names, or may be written by the kernel directly; `EEXIST` if
    /// the branch has something else of that name, which is hidden; `EAGAIN` if the object is renamed meanwhile; errors from
    /// copying.
    pub(crate) fn relocate(self: &Arc<Self>, caller: &Caller, target: &Arc<BranchMember>) -> Result<bool> {
        if self.kind == FileKind::Directory {
            return Err(Errno::EISDIR);
        }
        let branches = &self.union.branches;
        let original = self.leftmost();
        if Arc::ptr_eq(&original.member, target) {
            return Ok(false);
        }
        let position = |member: &BranchMember| branches.position(member).ok_or(Errno::ESTALE);
        let to = position(target)?;
        if to > position(&original.member)? {
            return self.relocate_right(caller, target).map(|()| true);
        }
        let now = self.writable_within(caller, DataExtent::All, to)?;
        if Arc::ptr_eq(&now.member, target) { Ok(true) } else { Err(Errno::EXDEV) }
    }

    fn relocate_right(self: &Arc<Self>, caller: &Caller, target: &Arc<BranchMember>) -> Result<()> {
        let _copying = self.copy_guard(caller)?;
        let original = self.leftmost();
        let is_counted = self.original_names.load(Ordering::Relaxed) != UNCOUNTED_NAMES;
        let can_move = self.union.branches.may_change(&original.member) && self.union.branches.may_create(target);
        if !can_move || is_counted || self.is_metadata_only()? {
            return Err(Errno::EXDEV);
        }
        self.check_movable_original(&original)?;
        self.find_location()?;
        let NodeLocation::At(above) = self.location() else { return Err(Errno::EXDEV) };
        if !above.directory.can_be_in(target)? {
            return Err(Errno::EXDEV);
        }
        let parent = above.directory.ensure_directory_in(caller, target)?;
        let server = Caller::server();
        let writer = Caller::server().at_expense_of(caller).cancelled_with(caller);
        let parameters = CopyParameters { writer, ..CopyParameters::whole() };
        let CompletedCopy { name, copy, lost } = copy_of(&original, target, &parameters)?;
        let identified = check_complete(&original.vnode, &copy, lost)
            .and_then(|()| self.store_identity(&server, target, &copy, UNCOUNTED_NAMES));
        let placed = identified.and_then(|()| {
            let instance = Instance::new(target, copy.clone(), copy.getattr(&server)?.ino);
            let names = [above.stored.as_name()];
            let _names = above.directory.write_guard_for(NameChanges::Names(&names, None));
            let exchange = Exchange { original: &original, copy: &instance, above: &above, parent: &parent };
            self.exchange(&exchange, name.as_name())
        });
        if placed.is_ok() {
            target.record_losses(&copy, lost);
            self.move_followers();
        } else if target.work.directory().and_then(|work| work.lookup(&server, name.as_name())).is_ok() {
            target.work.undo_entry(&name);
        }
        placed
    }

    /// Puts a copy into place below the original, and removes the original. The caller holds the directory's lock.
    fn exchange(self: &Arc<Self>, exchange: &Exchange<'_>, name: Name<'_>) -> Result<()> {
        let Exchange { original, copy, above, parent } = exchange;
        let (server, stored) = (Caller::server(), above.stored.as_name());
        let (source, target) = (&original.member, &copy.member);
        let from = above.directory.instance_in(source).ok_or(Errno::EAGAIN)?;
        let is_original = |entry: vnode::Entry| entry.vnode.handle() == original.vnode.handle();
        if !self.was_last_at(&above.directory, stored) || !from.lookup(&server, stored).is_ok_and(is_original) {
            return Err(Errno::EAGAIN);
        }
        self.check_revealed(exchange)?;
        keeping_times(parent, || {
            let work = target.work.directory()?;
            work.rename_verified(&server, name, parent, stored, RenameMode::NoReplace)
        })?;
        let is_removed = self
            .sync_below(target, source, parent)
            .and_then(|()| keeping_times(&from, || from.unlink_verified(&server, stored)));
        if is_removed.is_err() {
            // Hidden, and replaced by the next attempt, if it cannot be removed.
            let _ = keeping_times(parent, || parent.unlink_verified(&server, stored));
            return is_removed;
        }
        if target.is_unordered_with(source) {
            // Before anything is written to the copy: an original that a power failure brings back would hide it.
            let _ = sync_directory(&from);
        }
        self.record_copied_to((*copy).clone());
        Ok(())
    }

    /// Checks that the copy is what users see once the original is gone, and removes the hidden copy that an interrupted move has
    /// left, if it is still equal to the original.
    ///
    /// # Errors
    /// `EXDEV` if something else would be seen; `EEXIST` if the branch has another object of that name.
    fn check_revealed(self: &Arc<Self>, exchange: &Exchange<'_>) -> Result<()> {
        let Exchange { original, copy, above, parent } = exchange;
        let branches = &self.union.branches;
        let (server, stored) = (Caller::server(), above.stored.as_name());
        let position = |member: &BranchMember| branches.position(member).ok_or(Errno::ESTALE);
        let (first, last) = (position(&original.member)?, position(&copy.member)?);
        for directory in above.directory.instances().iter() {
            let at = position(&directory.member)?;
            if at < first || at > last {
                continue;
            }
            let has_object = at > first && at < last && objects::find(&directory.vnode, stored)?.is_some();
            if has_object || whiteout::has_whiteout_file(&directory.vnode, stored)? {
                return Err(Errno::EXDEV);
            }
        }
        let Some(hidden) = objects::find(parent, stored)? else { return Ok(()) };
        let attributes = original.vnode.getattr(&server)?;
        let is_equal = hidden.attributes.kind == self.kind
            && hidden.attributes.size == attributes.size
            && is_near(hidden.attributes.mtime, attributes.mtime);
        match self.union.stored_origin(&hidden.vnode)? {
            Some((identity, _)) if identity.handle == self.identity.handle && is_equal => {
                keeping_times(parent, || parent.unlink_verified(&server, stored))
            }
            _ => Err(Errno::EEXIST),
        }
    }

    /// Brings a copy to the disk of its branch before the original is removed in another that may have a disk of its own.
    fn sync_below(self: &Arc<Self>, target: &BranchMember, source: &BranchMember, parent: &VnodeRef) -> Result<()> {
        if !target.is_unordered_with(source) {
            return Ok(());
        }
        self.record_arrival();
        self.sync_arrival(target)?;
        sync_directory(parent)
    }
}

/// An original and its copy, which is in the work directory of its branch.
struct Exchange<'a> {
    original: &'a Instance,
    copy: &'a Instance,
    above: &'a ParentEntry,
    /// The directory in the branch of the copy.
    parent: &'a VnodeRef,
}
