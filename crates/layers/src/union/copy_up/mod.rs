//! Copy-up: an object that is to be changed, and must not be changed where it is, is copied to a higher branch (Unionfs,
//! section 2).
//!
//! A copy is completed in the work directory and then renamed into place, so users see the old object or the new one, never a
//! part.

mod arrival;
mod attributes;
mod directories;
pub(crate) mod extent;
pub(crate) mod links;
pub(crate) mod metacopy;
mod object;
mod relocation;

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLockReadGuard};

use vnode::{Caller, Errno, FileKind, InodeNumber, NameBuf, OpenFileRef, OpenFlags, RenameMode, Result, VnodeRef};

use super::branch::branches::BranchMember;
use super::branch::identity::{Identity, UNCOUNTED_NAMES};
use super::branch::lease::open_without_wait;
use super::branch::objects::{keeping_times, sync_directory};
use super::branch::verified::VerifiedOperations;
use super::settings::{CopyOwnership, CopyPermissions};
use super::state::guards::NameChanges;
use super::state::instance::Instance;
use super::state::{Node, NodeLocation, ParentEntry, Union};
pub(crate) use attributes::{copy_attributes, replace_attributes};
use extent::{DataExtent, MAX_ATTEMPTS, TruncateStep};
use object::{CompletedCopy, CopyParameters, copy_of};
pub(crate) use object::{copy_consistently, copy_object};

/// Opens a copy, as a [`TruncateStep`] by `O_TRUNC`.
pub(crate) struct TruncatingOpen<'a> {
    /// The caller that opens it.
    caller: &'a Caller,
    flags: OpenFlags,
    opened: Cell<Option<(VnodeRef, OpenFileRef)>>,
}

impl<'a> TruncatingOpen<'a> {
    pub(crate) fn new(caller: &'a Caller, flags: OpenFlags) -> Self {
        Self { caller, flags, opened: Cell::default() }
    }

    pub(crate) fn open(&self, copy: &VnodeRef) -> Result<()> {
        self.opened.set(Some((copy.clone(), open_without_wait(copy, self.caller, self.flags)?)));
        Ok(())
    }

    /// The open file, if its object is the present one.
    pub(crate) fn take(self, instance: &Instance) -> Option<(VnodeRef, OpenFileRef)> {
        self.opened.take().filter(|(vnode, _)| vnode.handle() == instance.vnode.handle())
    }
}

impl Union {
    /// Returns whether objects in the member may be changed, in place or in a copy.
    pub(crate) fn can_write(&self, member: &BranchMember) -> bool {
        let Some(position) = self.branches.position(member) else { return false };
        self.branches.may_change(member) || self.branches.writable_at_or_left_of(position).is_some()
    }

    /// Permissions that a directory that is copied for the sake of its contents gets instead of the original's. It never
    /// becomes the caller's, who could then let others in, or remove what is not the caller's.
    fn permissions_of_new_directory(&self) -> Option<CopyPermissions> {
        match self.settings.copy_up {
            CopyOwnership::Constant(rights) => Some(rights),
            CopyOwnership::Original | CopyOwnership::Current => None,
        }
    }

    /// Permissions that a copy caused by a caller gets instead of the original's.
    fn permissions_of_copy(&self, caller: &Caller) -> Option<CopyPermissions> {
        match self.settings.copy_up {
            CopyOwnership::Original => None,
            CopyOwnership::Constant(rights) => Some(rights),
            CopyOwnership::Current if caller.server => None,
            CopyOwnership::Current => {
                Some(CopyPermissions { uid: caller.uid, gid: caller.gid, mode: 0o666 & !umask_of(caller) })
            }
        }
    }
}

impl Node {
    /// Returns whether it may be changed in place.
    pub(crate) fn is_writable(&self) -> bool {
        self.union.branches.may_change(&self.leftmost().member) || self.is_unlinked()
    }

    /// Returns whether it has no name in any branch, so that it is in no snapshot and shadows nothing: it is changed in place.
    pub(crate) fn is_unlinked(&self) -> bool {
        matches!(self.location(), NodeLocation::Nowhere)
            && self.leftmost().vnode.getattr(&Caller::server()).is_ok_and(|attributes| attributes.nlink == 0)
    }

    /// The instance to be changed: the leftmost, or a copy of it.
    ///
    /// # Errors
    /// `EPERM` for an immutable object in a branch that must not be changed.
    pub(crate) fn writable(self: &Arc<Self>, caller: &Caller, extent: DataExtent) -> Result<Instance> {
        let instance = self.writable_within(caller, extent, usize::MAX)?;
        self.link_up_seen_names(caller);
        Ok(instance)
    }

    /// Like [`Node::writable`], for an object that is to be truncated: a copy is truncated before it becomes visible.
    pub(crate) fn writable_to_truncate(
        self: &Arc<Self>,
        caller: &Caller,
        size: u64,
        truncate_step: TruncateStep<'_>,
    ) -> Result<Instance> {
        self.check_copyable(caller)?;
        let instance = self.copy_if_needed(caller, DataExtent::UpTo(size), usize::MAX, Some(truncate_step))?;
        self.link_up_seen_names(caller);
        Ok(instance)
    }

    /// Like [`Node::writable`], for a file, with a guard that keeps it there while it is changed.
    pub(crate) fn writable_guarded(
        self: &Arc<Self>,
        caller: &Caller,
        extent: DataExtent,
    ) -> Result<(Option<RwLockReadGuard<'_, ()>>, Instance)> {
        self.with_read_guard(|| self.writable(caller, extent), || self.read_guard_unless_cancelled(caller))
    }

    /// Like [`Node::writable_to_truncate`], with a guard that keeps it there.
    pub(crate) fn writable_to_truncate_guarded(
        self: &Arc<Self>,
        caller: &Caller,
        size: u64,
        truncate_step: TruncateStep<'_>,
    ) -> Result<(Option<RwLockReadGuard<'_, ()>>, Instance)> {
        // A copy of that length already shows the pending truncation.
        self.with_read_guard(|| self.writable_to_truncate(caller, size, truncate_step), || Ok(self.read_guard()))
    }

    fn with_read_guard<'a>(
        self: &'a Arc<Self>,
        writable: impl Fn() -> Result<Instance>,
        hold: impl Fn() -> Result<RwLockReadGuard<'a, ()>>,
    ) -> Result<(Option<RwLockReadGuard<'a, ()>>, Instance)> {
        for _ in 0..MAX_ATTEMPTS {
            let instance = writable()?;
            if self.kind == FileKind::Directory {
                return Ok((None, instance));
            }
            let object = hold()?;
            if self.leftmost().is_same(&instance) {
                return Ok((Some(object), instance));
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Like [`Node::writable`], in a branch no lower than `limit`.
    pub(crate) fn writable_within(
        self: &Arc<Self>,
        caller: &Caller,
        extent: DataExtent,
        limit: usize,
    ) -> Result<Instance> {
        self.check_copyable(caller)?;
        self.copy_if_needed(caller, extent, limit, None)
    }

    /// Like [`Node::writable`], for a change of the flags of chattr(1), which may clear the immutable flag.
    pub(crate) fn writable_to_set_flags(self: &Arc<Self>, caller: &Caller) -> Result<Instance> {
        self.check_set_flags(caller)?;
        if !caller.may_change_flags() {
            self.check_copyable(caller)?;
        }
        self.copy_if_needed(caller, DataExtent::All, usize::MAX, None)
    }

    /// Checks that the caller may change it in a copy, if it must not be changed in place.
    ///
    /// # Errors
    /// `EPERM` for an immutable object: a copy of it would not be immutable.
    pub(crate) fn check_copyable(&self, caller: &Caller) -> Result<()> {
        let is_asked = !caller.server && !self.is_writable();
        let is_immutable = is_asked && self.leftmost().vnode.getattr(&Caller::server())?.is_immutable();
        if is_immutable { Err(Errno::EPERM) } else { Ok(()) }
    }

    fn copy_if_needed(
        self: &Arc<Self>,
        caller: &Caller,
        extent: DataExtent,
        limit: usize,
        truncate_step: Option<TruncateStep<'_>>,
    ) -> Result<Instance> {
        let leftmost = self.leftmost();
        if self.is_unlinked() {
            return self.ensure_data(caller, extent, truncate_step);
        }
        let Some(target) = self.copy_target(&leftmost.member, limit)? else {
            return self.ensure_data(caller, extent, truncate_step);
        };
        if self.kind != FileKind::Directory {
            return match self.copy_up(caller, extent, limit, truncate_step)? {
                Some(copy) => Ok(copy),
                // Another thread has made the copy.
                None => self.ensure_data(caller, extent, truncate_step),
            };
        }
        self.ensure_directory_in(caller, &target)?;
        Ok(self.leftmost())
    }

    /// The leftmost instance, which may be changed in place, with the given extent of its data. A metadata-only copy without
    /// room for its data may move.
    fn ensure_data(
        self: &Arc<Self>,
        caller: &Caller,
        extent: DataExtent,
        truncate_step: Option<TruncateStep<'_>>,
    ) -> Result<Instance> {
        match self.fill_data(caller, extent, truncate_step) {
            Err(error) if self.tries_next_branch(error) && !self.is_unlinked() => {
                let position = self.union.branches.position(&self.leftmost().member).ok_or(Errno::ESTALE)?;
                self.copy_up(caller, extent, position.checked_sub(1).ok_or(error)?, truncate_step)?;
                self.fill_data(caller, extent, truncate_step)?;
            }
            brought => brought?,
        }
        Ok(self.leftmost())
    }

    /// Checks that the branch to which it would be copied, to get one more name in this directory, supports hard links: nothing
    /// is copied for an operation that is going to fail. `limit` is as for [`Node::writable_within`].
    ///
    /// # Errors
    /// `EPERM` if the branch does not support them, and for immutable objects.
    pub(crate) fn can_be_linked_from(
        self: &Arc<Self>,
        caller: &Caller,
        directory: &Arc<Self>,
        limit: usize,
    ) -> Result<()> {
        self.check_copyable(caller)?;
        if self.is_unlinked() {
            return Ok(());
        }
        match self.copy_target(&self.leftmost().member, limit)? {
            // If that cannot be probed, for example because the branch is full, the copy itself finds out.
            Some(target) if directory.can_be_in(&target)? && target.work.has_hard_links() == Ok(false) => {
                Err(Errno::EPERM)
            }
            _ => Ok(()),
        }
    }

    /// The branch that receives a copy of the member's object, no lower than `limit`; `None` if the object may be changed in
    /// place.
    fn copy_target(self: &Arc<Self>, member: &BranchMember, limit: usize) -> Result<Option<Arc<BranchMember>>> {
        let branches = &self.union.branches;
        let position = branches.position(member).ok_or(Errno::ESTALE)?;
        if position <= limit && branches.may_change(member) {
            return Ok(None);
        }
        let position = position.min(limit);
        if self.kind == FileKind::Directory {
            return self.nearest_branch(position).map(Some);
        }
        self.find_location()?;
        match self.location() {
            NodeLocation::At(above) => above.directory.nearest_branch(position).map(Some),
            _ => branches.writable_at_or_left_of(position).map(Some).ok_or(Errno::EROFS),
        }
    }

    /// Copies it, unless that is no longer necessary.
    fn copy_up(
        self: &Arc<Self>,
        caller: &Caller,
        extent: DataExtent,
        mut limit: usize,
        truncate_step: Option<TruncateStep<'_>>,
    ) -> Result<Option<Instance>> {
        let _copying = self.copy_guard(caller)?;
        let original = self.leftmost();
        if self.is_unlinked() {
            return Ok(None);
        }
        loop {
            let Some(target) = self.copy_target(&original.member, limit)? else { return Ok(None) };
            match self.copy_to(caller, extent, truncate_step, &original, &target) {
                Err(error) if self.tries_next_branch(error) => {
                    let position = self.union.branches.position(&target).ok_or(Errno::ESTALE)?;
                    limit = position.checked_sub(1).ok_or(error)?;
                }
                copied => return copied.map(|()| Some(self.leftmost())),
            }
        }
    }

    fn copy_to(
        self: &Arc<Self>,
        caller: &Caller,
        extent: DataExtent,
        truncate_step: Option<TruncateStep<'_>>,
        original: &Instance,
        target: &Arc<BranchMember>,
    ) -> Result<()> {
        let moves = self.union.branches.may_change(&original.member);
        if moves {
            self.check_movable_original(original)?;
        }
        self.check_hard_links(original, target)?;
        let server = Caller::server();
        let was_shared = self.original_names.load(Ordering::Relaxed) != UNCOUNTED_NAMES;
        // A caller that only removes or adds a name does not become the owner of a file by that.
        let is_written = extent != DataExtent::Nothing;
        let rights = if moves || !is_written { None } else { self.union.permissions_of_copy(caller) };
        // The original of a moved object is no longer there as a source of data.
        let can_wait = extent == DataExtent::Nothing && !moves;
        let mark = if can_wait { self.new_copy_mark(original, target)? } else { None };
        let mark = if mark.is_some() && target.work.record_metacopies()? { mark } else { None };
        let data = self.data_instance()?;
        let writer = server.clone().at_expense_of(caller).cancelled_with(caller);
        let parameters = CopyParameters { extent, data, mark, rights, inherits: false, writer };
        let CompletedCopy { name, copy, lost } = copy_of(original, target, &parameters)?;
        if moves && let Err(error) = attributes::check_complete(&original.vnode, &copy, lost) {
            target.work.undo_entry(&name);
            return Err(error);
        }
        // An unlinked copy lives as long as it is open, and nobody may have opened it again yet.
        let is_nowhere = self.kind == FileKind::Regular && matches!(self.location(), NodeLocation::Nowhere);
        let held = is_nowhere.then(|| copy.open(&server, OpenFlags::READ)).transpose();
        // Everything about the copy is obtained before it becomes visible: from then on nothing may fail.
        let is_cut =
            held.and_then(|held| truncate_step.map_or(Ok(()), |truncate_step| truncate_step(&copy)).map(|()| held));
        let known = is_cut.and_then(|held| Ok((held, copy.getattr(&server)?.ino)));
        let placed = known.and_then(|known| self.finish_copy(caller, original, target, &name, &copy).map(|()| known));
        let ino = match placed {
            Ok((held, ino)) => {
                self.keep_open(held);
                ino
            }
            Err(error) => {
                target.work.undo_entry(&name);
                return Err(error);
            }
        };
        target.record_losses(&copy, lost);
        self.record_copied_to(Instance::new(target, copy, ino));
        self.move_followers();
        // If the copy is not on disk, a power failure would leave neither; the copy hides the original.
        if moves && (!target.is_unordered_with(&original.member) || self.sync_arrival(target).is_ok()) {
            self.remove_original(original, target);
            if was_shared {
                links::remove_link_entry(&self.identity, &original.member);
            }
        }
        Ok(())
    }

    /// Checks whether an object that may be changed in place can nevertheless go to another branch.
    ///
    /// # Errors
    /// `EXDEV` for a file with several names, of which only one would move, for one with a flag that forbids its removal, and for
    /// a file that the kernel may be reading and writing directly.
    pub(crate) fn check_movable_original(&self, original: &Instance) -> Result<()> {
        let attributes = original.vnode.getattr(&Caller::server())?;
        let must_stay = attributes.only_grows_or_stays();
        let names = self.visible_attributes(attributes).nlink;
        let is_direct =
            self.union.direct_files_in(&original.member).iter().any(|node| std::ptr::eq(&raw const **node, self));
        if names > 1 || must_stay || is_direct { Err(Errno::EXDEV) } else { Ok(()) }
    }

    /// Removes the original that a copy has replaced, in a branch that may be changed; invisible to users.
    fn remove_original(&self, original: &Instance, target: &BranchMember) {
        let NodeLocation::At(ParentEntry { directory, stored }) = self.location() else { return };
        let (server, stored) = (Caller::server(), stored.as_name());
        let names = [stored];
        let _names = directory.write_guard_for(NameChanges::Names(&names, Some(&original.member)));
        let Some(parent) = directory.instance_in(&original.member) else { return };
        let is_original = |entry: vnode::Entry| entry.vnode.handle() == original.vnode.handle();
        if self.was_last_at(&directory, stored) && parent.lookup(&server, stored).is_ok_and(is_original) {
            let removed = keeping_times(&parent, || parent.unlink_verified(&server, stored));
            if removed.is_ok() && target.is_unordered_with(&original.member) {
                // Synchronizes before the copy gets another name. An original that reappears after a power failure is no worse
                // than one that was not removed.
                let _ = sync_directory(&parent);
            }
        }
    }

    /// Checks that the copy of a file with several names can be in a branch: without hard links the other names cannot lead to
    /// it.
    ///
    /// # Errors
    /// `EMLINK`.
    fn check_hard_links(&self, original: &Instance, target: &BranchMember) -> Result<()> {
        let names = self.visible_attributes(original.vnode.getattr(&Caller::server())?).nlink;
        if names < 2 || target.work.has_hard_links()? { Ok(()) } else { Err(Errno::EMLINK) }
    }

    /// Gives a copy the identity of its original. In a branch without attributes to store it, this holds only as long as this
    /// vnode lives.
    pub(crate) fn store_identity(
        self: &Arc<Self>,
        writer: &Caller,
        target: &BranchMember,
        copy: &VnodeRef,
        names: u32,
    ) -> Result<()> {
        if !self.identity.store_origin(writer, copy, names)? {
            let native = Identity::native(&target.base.numbers, &copy.handle(), InodeNumber::new(0))?;
            self.add_handle(&native.handle);
        }
        Ok(())
    }

    /// Gives a copy its identity, links it up with the original's other names, and puts it into place.
    fn finish_copy(
        self: &Arc<Self>,
        caller: &Caller,
        original: &Instance,
        target: &Arc<BranchMember>,
        name: &NameBuf,
        copy: &VnodeRef,
    ) -> Result<()> {
        let names = self.visible_attributes(original.vnode.getattr(&Caller::server())?).nlink;
        let writer = &Caller::server().at_expense_of(caller);
        if names < 2 {
            self.store_identity(writer, target, copy, UNCOUNTED_NAMES)?;
            self.rename_into_place(caller, name, target)?;
            self.original_names.store(UNCOUNTED_NAMES, Ordering::Relaxed);
            return Ok(());
        }
        // The copy has as many names before it is in place as after, so that its link count is right at any time.
        self.store_identity(writer, target, copy, names - 1)?;
        links::add_link_entry(writer, &self.identity, target, copy)?;
        if let Err(error) = self.rename_into_place(caller, name, target) {
            links::remove_link_entry(&self.identity, target);
            return Err(error);
        }
        self.original_names.store(names - 1, Ordering::Relaxed);
        Ok(())
    }

    /// Renames a finished copy to the object's present location.
    fn rename_into_place(self: &Arc<Self>, caller: &Caller, name: &NameBuf, target: &Arc<BranchMember>) -> Result<()> {
        let (server, writer) = (Caller::server(), Caller::server().at_expense_of(caller));
        let work = target.work.directory()?;
        for _ in 0..MAX_ATTEMPTS {
            let ParentEntry { directory, stored } = match self.location() {
                NodeLocation::At(above) => above,
                // Open and unlinked: so is the copy.
                NodeLocation::Nowhere => return work.unlink_verified(&server, name.as_name()),
                NodeLocation::Unknown => {
                    self.find_location()?;
                    continue;
                }
            };
            let parent = directory.ensure_directory_in(caller, target)?;
            let names = [stored.as_name()];
            let _names = directory.write_guard_for(NameChanges::Names(&names, Some(target)));
            if self.was_last_at(&directory, stored.as_name()) {
                return keeping_times(&parent, || {
                    work.rename_verified(&writer, name.as_name(), &parent, stored.as_name(), RenameMode::NoReplace)
                });
            }
        }
        Err(Errno::EAGAIN)
    }
}

/// Umask of a process, which only requests that create something carry.
fn umask_of(caller: &Caller) -> u32 {
    const OWNER_ONLY_UMASK: u32 = 0o077;
    if caller.pid == 0 || caller.umask != 0 {
        return caller.umask;
    }
    let status = procfs::Process::Numbered(caller.pid).status().unwrap_or_default();
    status.and_then(|status| status.umask()).unwrap_or(OWNER_ONLY_UMASK)
}
