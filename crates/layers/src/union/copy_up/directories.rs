//! Directories above a copy: created in its branch one by one from the top, each with the attributes that users see.

use std::sync::Arc;

use vnode::{Caller, Errno, RenameMode, Result, SetAttributes, SetTime, VnodeRef};

use super::attributes::{copy_attributes, copy_rights, keeping_times};
use crate::union::branch::branches::Member;
use crate::union::branch::verified::Sure;
use crate::union::node::{Above, Changes, Instance, NO_COUNT, Node, Whereabouts};

impl Node {
    /// The directory in a branch, created there with all its ancestors if necessary.
    pub(crate) fn directory_in(self: &Arc<Self>, caller: &Caller, member: &Arc<Member>) -> Result<VnodeRef> {
        let mut way = Vec::new();
        let mut node = Arc::clone(self);
        let mut place = loop {
            if let Some(place) = node.instance_in(member) {
                break place;
            }
            node.find_whereabouts()?;
            let Whereabouts::At(above) = node.whereabouts() else { return Err(Errno::ESTALE) };
            let directory = Arc::clone(&above.directory);
            way.push((std::mem::replace(&mut node, directory), above));
        };
        for (node, above) in way.iter().rev() {
            place = node.make_in(caller, member, above, &place)?;
        }
        Ok(place)
    }

    /// The directory in a branch, for a change that a caller makes there: the leftmost instance decides about permissions, and
    /// about what new objects inherit.
    ///
    /// # Errors
    /// `EPERM` if that is immutable in a branch that must not be changed.
    pub(crate) fn place_in(self: &Arc<Self>, caller: &Caller, member: &Arc<Member>) -> Result<VnodeRef> {
        self.may_be_copied(caller)?;
        let place = self.directory_in(caller, member)?;
        let leftmost = self.leftmost();
        if !Arc::ptr_eq(&leftmost.member, member) {
            copy_rights(&Caller::server().at_expense_of(caller), &leftmost.vnode, &place)?;
        }
        Ok(place)
    }

    /// Records that a caller has changed the instance in a branch: users see that by the times of the leftmost.
    pub(crate) fn was_changed_in(&self, member: &Member) {
        let leftmost = self.leftmost();
        if !std::ptr::eq(&raw const *leftmost.member, member) && self.union.branches.may_change(&leftmost.member) {
            let now = SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() };
            // The change is made.
            let _ = leftmost.vnode.setattr(&Caller::server(), &now);
        }
    }

    /// Creates the directory in a branch that has its parent, with the attributes that users see.
    fn make_in(
        self: &Arc<Self>,
        caller: &Caller,
        member: &Arc<Member>,
        above: &Above,
        parent: &VnodeRef,
    ) -> Result<VnodeRef> {
        let stored = above.stored.as_name();
        let names = [stored];
        let _names = above.directory.alone_for(Changes::Names(&names, Some(member)));
        if let Some(made) = self.instance_in(member) {
            return Ok(made);
        }
        if !self.was_at(&above.directory, stored) {
            return Err(Errno::ESTALE);
        }
        if !self.would_show_in(member, above)? {
            return Err(Errno::EXDEV);
        }
        let (server, writer) = (Caller::server(), Caller::server().at_expense_of(caller));
        // Below the leftmost, that one's permissions decide.
        let is_leftmost = self.union.branches.position(member) < self.union.branches.position(&self.leftmost().member);
        let rights = if is_leftmost { self.union.rights_of_directory() } else { None };
        let (work, name) = (member.work.directory()?, member.work.name());
        let directory = work.mkdir(&writer, name.as_name(), 0o700)?.vnode;
        let made = copy_attributes(&writer, &self.leftmost().vnode, &directory, rights).and_then(|lost| {
            self.keep_identity(&writer, member, &directory)?;
            let place = || work.rename_surely(&writer, name.as_name(), parent, stored, RenameMode::NoReplace);
            keeping_times(parent, place).map(|()| lost)
        });
        match made {
            Ok(lost) => member.note_losses(&directory, lost),
            Err(error) => {
                member.work.discard(&name);
                return if error == Errno::EEXIST { self.made_by_others(member, above) } else { Err(error) };
            }
        }
        let ino = directory.getattr(&server)?.ino;
        self.add_instance(Instance::new(member, directory.clone(), ino));
        self.has_arrived();
        Ok(directory)
    }

    /// The directory in a branch in which somebody else has just created it. The caller holds the parent's lock.
    fn made_by_others(self: &Arc<Self>, member: &Member, above: &Above) -> Result<VnodeRef> {
        above.directory.forget_names();
        if let Some(found) = self.find_again(&above.directory, above.stored.as_name())? {
            self.is_found(found)?;
        }
        self.instance_in(member).ok_or(Errno::EEXIST)
    }

    /// Preserves this directory's identity when it is created in a branch older than all that have it.
    fn keep_identity(self: &Arc<Self>, writer: &Caller, member: &Member, made: &VnodeRef) -> Result<()> {
        if self.instances().iter().any(|instance| instance.member.age() < member.age()) {
            return Ok(());
        }
        member.work.note_copied_directories()?;
        self.bring_identity(writer, member, made, NO_COUNT)
    }

    /// Finds the location of an object that was reached by its handle, or lost the name by which it was reached.
    ///
    /// # Errors
    /// `ESTALE` if its path in the branch is not its path in the union: it is in a moved directory.
    pub(crate) fn find_whereabouts(self: &Arc<Self>) -> Result<()> {
        if !matches!(self.whereabouts(), Whereabouts::Unknown) {
            return Ok(());
        }
        let Instance { member, vnode, .. } = self.leftmost();
        let path = Member::path_in_layer(&member.base, &vnode)?;
        match self.union.node_at(&path) {
            Ok(found) if Arc::ptr_eq(&found, self) => Ok(()),
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR) => Err(Errno::ESTALE),
            Err(error) => Err(error),
        }
    }
}
