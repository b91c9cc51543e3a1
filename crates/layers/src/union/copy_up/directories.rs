//! Directories above a copy: created in its branch one by one from the top, each with the attributes that users see.

use std::sync::Arc;

use vnode::{Caller, Errno, RenameMode, Result, SetAttributes, SetTime, VnodeRef};

use super::attributes::{copy_attributes, copy_permissions};
use crate::union::branch::branches::BranchMember;
use crate::union::branch::identity::UNCOUNTED_NAMES;
use crate::union::branch::objects::keeping_times;
use crate::union::branch::verified::VerifiedOperations;
use crate::union::state::guards::NameChanges;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation, ParentEntry};

impl Node {
    /// The directory in a branch, created there with all its ancestors if necessary.
    pub(crate) fn ensure_directory_in(
        self: &Arc<Self>,
        caller: &Caller,
        member: &Arc<BranchMember>,
    ) -> Result<VnodeRef> {
        let mut missing = Vec::new();
        let mut node = Arc::clone(self);
        let mut instance = loop {
            if let Some(instance) = node.instance_in(member) {
                break instance;
            }
            node.find_location()?;
            let NodeLocation::At(above) = node.location() else { return Err(Errno::ESTALE) };
            let directory = Arc::clone(&above.directory);
            missing.push((std::mem::replace(&mut node, directory), above));
        };
        for (node, above) in missing.iter().rev() {
            instance = node.make_directory_in(caller, member, above, &instance)?;
        }
        Ok(instance)
    }

    /// The directory in a branch, for a change that a caller makes there: the leftmost instance decides about permissions, and
    /// about what new objects inherit.
    ///
    /// # Errors
    /// `EPERM` if that is immutable in a branch that must not be changed.
    pub(crate) fn directory_for_change(
        self: &Arc<Self>,
        caller: &Caller,
        member: &Arc<BranchMember>,
    ) -> Result<VnodeRef> {
        self.check_copyable(caller)?;
        let instance = self.ensure_directory_in(caller, member)?;
        let leftmost = self.leftmost();
        if !Arc::ptr_eq(&leftmost.member, member) {
            copy_permissions(&Caller::server().at_expense_of(caller), &leftmost.vnode, &instance)?;
        }
        Ok(instance)
    }

    /// Records that a caller has changed the instance in a branch: users see that by the times of the leftmost.
    pub(crate) fn touch_leftmost(&self, member: &BranchMember) {
        let leftmost = self.leftmost();
        if !std::ptr::eq(&raw const *leftmost.member, member) && self.union.branches.may_change(&leftmost.member) {
            let now = SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() };
            // The change is made.
            let _ = leftmost.vnode.setattr(&Caller::server(), &now);
        }
    }

    /// Creates the directory in a branch that has its parent, with the attributes that users see.
    fn make_directory_in(
        self: &Arc<Self>,
        caller: &Caller,
        member: &Arc<BranchMember>,
        above: &ParentEntry,
        parent: &VnodeRef,
    ) -> Result<VnodeRef> {
        let stored = above.stored.as_name();
        let names = [stored];
        let _names = above.directory.write_guard_for(NameChanges::Names(&names, Some(member)));
        if let Some(made) = self.instance_in(member) {
            return Ok(made);
        }
        if !self.was_last_at(&above.directory, stored) {
            return Err(Errno::ESTALE);
        }
        if !self.would_show_in(member, above)? {
            return Err(Errno::EXDEV);
        }
        let (server, writer) = (Caller::server(), Caller::server().at_expense_of(caller));
        // Below the leftmost, that one's permissions decide.
        let is_leftmost = self.union.branches.position(member) < self.union.branches.position(&self.leftmost().member);
        let rights = if is_leftmost { self.union.permissions_of_new_directory() } else { None };
        let (work, name) = (member.work.directory()?, member.work.unused_name());
        let directory = work.mkdir(&writer, name.as_name(), 0o700)?.vnode;
        let made = copy_attributes(&writer, &self.leftmost().vnode, &directory, rights).and_then(|lost| {
            self.preserve_identity(&writer, member, &directory)?;
            let rename = || work.rename_verified(&writer, name.as_name(), parent, stored, RenameMode::NoReplace);
            keeping_times(parent, rename).map(|()| lost)
        });
        match made {
            Ok(lost) => member.record_losses(&directory, lost),
            Err(error) => {
                member.work.discard(&name);
                return if error == Errno::EEXIST { self.find_made_by_others(member, above) } else { Err(error) };
            }
        }
        let ino = directory.getattr(&server)?.ino;
        self.add_instance(Instance::new(member, directory.clone(), ino));
        self.record_arrival();
        Ok(directory)
    }

    /// The directory in a branch in which somebody else has just created it. The caller holds the parent's lock.
    fn find_made_by_others(self: &Arc<Self>, member: &BranchMember, above: &ParentEntry) -> Result<VnodeRef> {
        above.directory.invalidate_names();
        if let Some(found) = self.find_at(&above.directory, above.stored.as_name())? {
            self.record_found(found)?;
        }
        self.instance_in(member).ok_or(Errno::EEXIST)
    }

    /// Preserves this directory's identity when it is created in a branch older than all that have it.
    fn preserve_identity(self: &Arc<Self>, writer: &Caller, member: &BranchMember, made: &VnodeRef) -> Result<()> {
        if self.instances().iter().any(|instance| instance.member.age() < member.age()) {
            return Ok(());
        }
        member.work.record_copied_directories()?;
        self.store_identity(writer, member, made, UNCOUNTED_NAMES)
    }

    /// Finds the location of an object that was reached by its handle, or lost the name by which it was reached.
    ///
    /// # Errors
    /// `ESTALE` if its path in the branch is not its path in the union: it is in a moved directory.
    pub(crate) fn find_location(self: &Arc<Self>) -> Result<()> {
        if !matches!(self.location(), NodeLocation::Unknown) {
            return Ok(());
        }
        let Instance { member, vnode, .. } = self.leftmost();
        let path = BranchMember::path_in_layer(&member.base, &vnode)?;
        match self.union.node_at_path(&path) {
            Ok(found) if Arc::ptr_eq(&found, self) => Ok(()),
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR) => Err(Errno::ESTALE),
            Err(error) => Err(error),
        }
    }
}
