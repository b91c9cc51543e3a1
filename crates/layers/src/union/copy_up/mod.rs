//! Copy-up: what is to be changed and may not be where it is, is copied to a branch on the left (Unionfs, section 2).
//!
//! A copy is made whole in the work directory and then renamed to its place, so there is the old object or the new one,
//! never a part.

mod attributes;
mod directories;
mod object;

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLockReadGuard};

use vnode::{Caller, Errno, FileKind, NameBuf, OpenFileRef, OpenFlags, RenameMode, Result, VnodeRef};

use super::branches::Member;
use super::durable::sync_directory;
use super::identity::Identity;
use super::lease::open_at_once;
use super::node::{Above, Changes, Instance, NO_COUNT, Node, Whereabouts};
use super::settings::{Ownership, Rights};
use super::{Union, links};
use crate::union::sure::Sure;
pub(super) use attributes::{copy_attributes, keeping_times, replace_attributes};
use object::{Copied, How, copy_of};
pub(super) use object::{copy_untouched, copy_whole};

/// How much of a file's data is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All.
    All,
    /// The first bytes: the rest is about to be cut off.
    UpTo(u64),
    /// Nothing, if that can be: they are not about to be changed.
    Nothing,
}

/// The step that an operation is about, which cuts data off: done to a copy before anybody sees it, so that none is to be seen that
/// is cut off where the operation fails.
pub(super) type Cut<'a> = &'a dyn Fn(&VnodeRef) -> Result<()>;

/// Opens a copy, as a [`Cut`] by `O_TRUNC`.
pub(super) struct Opening<'a> {
    /// Who opens it.
    caller: &'a Caller,
    flags: OpenFlags,
    opened: Cell<Option<(VnodeRef, OpenFileRef)>>,
}

impl<'a> Opening<'a> {
    pub(super) fn new(caller: &'a Caller, flags: OpenFlags) -> Self {
        Self { caller, flags, opened: Cell::default() }
    }

    pub(super) fn open(&self, copy: &VnodeRef) -> Result<()> {
        self.opened.set(Some((copy.clone(), open_at_once(copy, self.caller, self.flags)?)));
        Ok(())
    }

    /// What was opened, if that is the object by now.
    pub(super) fn take(self, instance: &Instance) -> Option<(VnodeRef, OpenFileRef)> {
        self.opened.take().filter(|(vnode, _)| vnode.handle() == instance.vnode.handle())
    }
}

/// How often an object may move while its copy is made before we give up.
const ATTEMPTS: usize = 16;
impl Union {
    /// Whether what is in the member may be changed, there or in a copy.
    pub(super) fn can_write(&self, member: &Member) -> bool {
        let Some(position) = self.branches.position(member) else { return false };
        self.branches.may_change(member) || self.branches.writable_at_or_left_of(position).is_some()
    }

    /// What a directory has instead of the original's rights that is copied for the sake of what is in it: it is never the
    /// caller's, who could let others in then, or take away what is not the caller's.
    fn rights_of_directory(&self) -> Option<Rights> {
        match self.settings.copy_up {
            Ownership::Constant(rights) => Some(rights),
            Ownership::Original | Ownership::Current => None,
        }
    }

    /// What a copy that a caller causes has instead of the original's rights.
    fn rights_of_copy(&self, caller: &Caller) -> Option<Rights> {
        match self.settings.copy_up {
            Ownership::Original => None,
            Ownership::Constant(rights) => Some(rights),
            Ownership::Current if caller.server => None,
            Ownership::Current => Some(Rights { uid: caller.uid, gid: caller.gid, mode: 0o666 & !umask_of(caller) }),
        }
    }
}

impl Node {
    /// Whether it may be changed where it is.
    pub(super) fn is_writable(&self) -> bool {
        self.union.branches.may_change(&self.leftmost().member) || self.is_nameless()
    }

    /// Whether it has no name in any branch, so that it is in no snapshot and in nobody's way: it is changed where it is.
    pub(super) fn is_nameless(&self) -> bool {
        matches!(self.whereabouts(), Whereabouts::Nowhere)
            && self.leftmost().vnode.getattr(&Caller::server()).is_ok_and(|attributes| attributes.nlink == 0)
    }

    /// The instance to be changed: the leftmost, or a copy of it.
    ///
    /// # Errors
    /// `EPERM` for what is immutable in a branch that may not be changed.
    pub(super) fn writable(self: &Arc<Self>, caller: &Caller, extent: Extent) -> Result<Instance> {
        self.writable_within(caller, extent, usize::MAX)
    }

    /// As [`Node::writable`] to be cut off after the first bytes: a copy is before it is seen.
    pub(super) fn writable_to_cut(self: &Arc<Self>, caller: &Caller, size: u64, cut: Cut<'_>) -> Result<Instance> {
        self.may_be_copied(caller)?;
        self.copied_within(caller, Extent::UpTo(size), usize::MAX, Some(cut))
    }

    /// As [`Node::writable`], of a file with what keeps it there while it is changed.
    pub(super) fn held_writable(
        self: &Arc<Self>,
        caller: &Caller,
        extent: Extent,
    ) -> Result<(Option<RwLockReadGuard<'_, ()>>, Instance)> {
        self.held(|| self.writable(caller, extent), || self.shared_unless(caller))
    }

    /// As [`Node::writable_to_cut`], with what keeps it there.
    pub(super) fn held_to_cut(
        self: &Arc<Self>,
        caller: &Caller,
        size: u64,
        cut: Cut<'_>,
    ) -> Result<(Option<RwLockReadGuard<'_, ()>>, Instance)> {
        // A copy that is as short shows already what is still to be done.
        self.held(|| self.writable_to_cut(caller, size, cut), || Ok(self.shared()))
    }

    fn held<'a>(
        self: &'a Arc<Self>,
        writable: impl Fn() -> Result<Instance>,
        hold: impl Fn() -> Result<RwLockReadGuard<'a, ()>>,
    ) -> Result<(Option<RwLockReadGuard<'a, ()>>, Instance)> {
        for _ in 0..ATTEMPTS {
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

    /// As [`Node::writable`], in a branch no further to the right than `limit`.
    pub(super) fn writable_within(self: &Arc<Self>, caller: &Caller, extent: Extent, limit: usize) -> Result<Instance> {
        self.may_be_copied(caller)?;
        self.copied_within(caller, extent, limit, None)
    }

    /// As [`Node::writable`] for a change of the flags of chattr(1), which may be that it is not immutable any more.
    pub(super) fn writable_to_flag(self: &Arc<Self>, caller: &Caller) -> Result<Instance> {
        self.may_flag(caller)?;
        if !caller.may_change_flags() {
            self.may_be_copied(caller)?;
        }
        self.copied_within(caller, Extent::All, usize::MAX, None)
    }

    /// Whether the caller may change it in a copy, if it may not be changed where it is.
    ///
    /// # Errors
    /// `EPERM` for what is immutable: a copy of it would not be.
    pub(super) fn may_be_copied(&self, caller: &Caller) -> Result<()> {
        let is_asked = !caller.server && !self.is_writable();
        let is_immutable = is_asked && self.leftmost().vnode.getattr(&Caller::server())?.is_immutable();
        if is_immutable { Err(Errno::EPERM) } else { Ok(()) }
    }

    fn copied_within(
        self: &Arc<Self>,
        caller: &Caller,
        extent: Extent,
        limit: usize,
        cut: Option<Cut<'_>>,
    ) -> Result<Instance> {
        let leftmost = self.leftmost();
        if self.is_nameless() {
            return self.with_data(caller, extent, cut);
        }
        let Some(target) = self.target_of_copy(&leftmost.member, limit)? else {
            return self.with_data(caller, extent, cut);
        };
        if self.kind != FileKind::Directory {
            return match self.copy_up(caller, extent, limit, cut)? {
                Some(copy) => Ok(copy),
                // Another has made it.
                None => self.with_data(caller, extent, cut),
            };
        }
        self.directory_in(caller, &target)?;
        Ok(self.leftmost())
    }

    /// The leftmost instance, which may be changed where it is, with as much of its data. A metadata-only copy that does not
    /// find room for them may move.
    fn with_data(self: &Arc<Self>, caller: &Caller, extent: Extent, cut: Option<Cut<'_>>) -> Result<Instance> {
        match self.bring_data(caller, extent, cut) {
            Err(error) if self.passes_over(error) && !self.is_nameless() => {
                let position = self.union.branches.position(&self.leftmost().member).ok_or(Errno::ESTALE)?;
                self.copy_up(caller, extent, position.checked_sub(1).ok_or(error)?, cut)?;
                self.bring_data(caller, extent, cut)?;
            }
            brought => brought?,
        }
        Ok(self.leftmost())
    }

    /// Makes sure that the branch to which it would be copied, to get one more name in this directory, has such names: nothing is
    /// copied for what is going to be refused. `limit` is as for [`Node::writable_within`].
    ///
    /// # Errors
    /// `EPERM` where it does not have them, and for what is immutable.
    pub(super) fn can_be_linked_from(
        self: &Arc<Self>,
        caller: &Caller,
        directory: &Arc<Self>,
        limit: usize,
    ) -> Result<()> {
        self.may_be_copied(caller)?;
        if self.is_nameless() {
            return Ok(());
        }
        match self.target_of_copy(&self.leftmost().member, limit)? {
            // Where that cannot be tried out, as in a branch that is full, the copy itself finds out.
            Some(target) if directory.can_be_in(&target)? && target.work.has_hard_links() == Ok(false) => {
                Err(Errno::EPERM)
            }
            _ => Ok(()),
        }
    }

    /// Where a copy of what is in the member is made, so that it is no further to the right than `limit`; `None` if it
    /// may be changed where it is.
    fn target_of_copy(self: &Arc<Self>, member: &Member, limit: usize) -> Result<Option<Arc<Member>>> {
        let branches = &self.union.branches;
        let position = branches.position(member).ok_or(Errno::ESTALE)?;
        if position <= limit && branches.may_change(member) {
            return Ok(None);
        }
        let position = position.min(limit);
        if self.kind == FileKind::Directory {
            return self.nearest_branch(position).map(Some);
        }
        self.find_whereabouts()?;
        match self.whereabouts() {
            Whereabouts::At(above) => above.directory.nearest_branch(position).map(Some),
            _ => branches.writable_at_or_left_of(position).map(Some).ok_or(Errno::EROFS),
        }
    }

    /// Copies it, unless that is not needed any more.
    fn copy_up(
        self: &Arc<Self>,
        caller: &Caller,
        extent: Extent,
        mut limit: usize,
        cut: Option<Cut<'_>>,
    ) -> Result<Option<Instance>> {
        let _copying = self.alone_to_copy(caller)?;
        let original = self.leftmost();
        if self.is_nameless() {
            return Ok(None);
        }
        loop {
            let Some(target) = self.target_of_copy(&original.member, limit)? else { return Ok(None) };
            match self.copy_to(caller, extent, cut, &original, &target) {
                Err(error) if self.passes_over(error) => {
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
        extent: Extent,
        cut: Option<Cut<'_>>,
        original: &Instance,
        target: &Arc<Member>,
    ) -> Result<()> {
        let moves = self.union.branches.may_change(&original.member);
        if moves {
            self.may_move(original)?;
        }
        self.can_share_names(original, target)?;
        let server = Caller::server();
        let was_shared = self.names.load(Ordering::Relaxed) != NO_COUNT;
        // Who only takes a name away, or gives another, gets no file by that.
        let is_written = extent != Extent::Nothing;
        let rights = if moves || !is_written { None } else { self.union.rights_of_copy(caller) };
        // What moves is no longer there for its data to be found.
        let can_wait = extent == Extent::Nothing && !moves;
        let mark = if can_wait { self.mark_of_copy(original, target)? } else { None };
        let mark = if mark.is_some() && target.work.note_metacopies()? { mark } else { None };
        let data = self.data()?;
        let writer = server.clone().at_expense_of(caller).cancelled_with(caller);
        let how = How { extent, data, mark, rights, inherits: false, writer };
        let Copied { name, copy, lost } = copy_of(original, target, &how)?;
        // Without a name it lives as long as it is open, and nobody may have opened it again yet.
        let is_nowhere = self.kind == FileKind::Regular && matches!(self.whereabouts(), Whereabouts::Nowhere);
        let held = is_nowhere.then(|| copy.open(&server, OpenFlags::READ)).transpose();
        // All that is to be known of the copy, before it is seen: from then on nothing may fail.
        let is_cut = held.and_then(|held| cut.map_or(Ok(()), |cut| cut(&copy)).map(|()| held));
        let known = is_cut.and_then(|held| Ok((held, copy.getattr(&server)?.ino)));
        let placed = known.and_then(|known| self.finish_copy(caller, original, target, &name, &copy).map(|()| known));
        let ino = match placed {
            Ok((held, ino)) => {
                self.hold(held);
                ino
            }
            Err(error) => {
                target.work.take_back(&name);
                return Err(error);
            }
        };
        target.note_losses(&copy, lost);
        self.moved_to(Instance::new(target, copy, ino));
        self.call_followers();
        // Where the copy is not on the disk, a power cut would leave neither; the original is hidden by the copy.
        if moves && (!target.is_apart_from(&original.member) || self.sync_arrival(target).is_ok()) {
            self.remove_original(original, target);
            if was_shared {
                links::unshare(&self.identity, &original.member);
            }
        }
        Ok(())
    }

    /// Whether what may be changed where it is can go to another branch all the same.
    ///
    /// # Errors
    /// `EXDEV` for a file with several names, of which only one would move, and for one that the kernel may be reading
    /// and writing by itself.
    fn may_move(&self, original: &Instance) -> Result<()> {
        let names = self.shown(original.vnode.getattr(&Caller::server())?).nlink;
        let is_direct =
            self.union.direct_in(&original.member).iter().any(|file| std::ptr::eq(&raw const *file.node, self));
        if names > 1 || is_direct { Err(Errno::EXDEV) } else { Ok(()) }
    }

    /// Removes what a copy has taken the place of, in a branch that may be changed: users see nothing of it.
    fn remove_original(&self, original: &Instance, target: &Member) {
        let Whereabouts::At(Above { directory, stored }) = self.whereabouts() else { return };
        let (server, stored) = (Caller::server(), stored.as_name());
        let names = [stored];
        let _names = directory.alone_for(Changes::Names(&names, Some(&original.member)));
        let Some(place) = directory.instance_in(&original.member) else { return };
        let is_original = |entry: vnode::Entry| entry.vnode.handle() == original.vnode.handle();
        if self.was_at(&directory, stored) && place.lookup(&server, stored).is_ok_and(is_original) {
            let removed = keeping_times(&place, || place.unlink_surely(&server, stored));
            if removed.is_ok() && target.is_apart_from(&original.member) {
                // Before the copy gets another name. What comes back after a power cut is no worse than what was not removed.
                let _ = sync_directory(&place);
            }
        }
    }

    /// Whether what has several names can have its copy in a branch: in one without hard links the other names cannot lead to it.
    ///
    /// # Errors
    /// `EMLINK`.
    fn can_share_names(&self, original: &Instance, target: &Member) -> Result<()> {
        let names = self.shown(original.vnode.getattr(&Caller::server())?).nlink;
        if names < 2 || target.work.has_hard_links()? { Ok(()) } else { Err(Errno::EMLINK) }
    }

    /// Has a copy be known as the original was. Where the branch has no attributes to keep that in, it is so as long as this
    /// vnode lives.
    pub(super) fn bring_identity(
        self: &Arc<Self>,
        writer: &Caller,
        target: &Member,
        copy: &VnodeRef,
        names: u32,
    ) -> Result<()> {
        if !self.identity.bring(writer, copy, names)? {
            let native = Identity::native(&target.base, &copy.handle(), 0)?;
            self.union.table.add_name(&native.handle, self);
        }
        Ok(())
    }

    /// Gives a copy its identity, has the original's other names lead to it, and puts it into its place.
    fn finish_copy(
        self: &Arc<Self>,
        caller: &Caller,
        original: &Instance,
        target: &Arc<Member>,
        name: &NameBuf,
        copy: &VnodeRef,
    ) -> Result<()> {
        let names = self.shown(original.vnode.getattr(&Caller::server())?).nlink;
        let writer = &Caller::server().at_expense_of(caller);
        if names < 2 {
            self.bring_identity(writer, target, copy, NO_COUNT)?;
            self.place(caller, name, target)?;
            self.names.store(NO_COUNT, Ordering::Relaxed);
            return Ok(());
        }
        // The names of the copy are as many before it comes to its place as after, so that its count is right at any time.
        self.bring_identity(writer, target, copy, names - 1)?;
        links::share(writer, &self.identity, target, copy)?;
        if let Err(error) = self.place(caller, name, target) {
            links::unshare(&self.identity, target);
            return Err(error);
        }
        self.names.store(names - 1, Ordering::Relaxed);
        Ok(())
    }

    /// Renames a finished copy to where the object is seen now.
    fn place(self: &Arc<Self>, caller: &Caller, name: &NameBuf, target: &Arc<Member>) -> Result<()> {
        let (server, writer) = (Caller::server(), Caller::server().at_expense_of(caller));
        let work = target.work.directory()?;
        for _ in 0..ATTEMPTS {
            let Above { directory, stored } = match self.whereabouts() {
                Whereabouts::At(above) => above,
                // Open, and without a name: so is the copy.
                Whereabouts::Nowhere => return work.unlink_surely(&server, name.as_name()),
                Whereabouts::Unknown => {
                    self.find_whereabouts()?;
                    continue;
                }
            };
            let place = directory.directory_in(caller, target)?;
            let names = [stored.as_name()];
            let _names = directory.alone_for(Changes::Names(&names, Some(target)));
            if self.was_at(&directory, stored.as_name()) {
                return keeping_times(&place, || {
                    work.rename_surely(&writer, name.as_name(), &place, stored.as_name(), RenameMode::NoReplace)
                });
            }
        }
        Err(Errno::EAGAIN)
    }
}

/// The umask of a process, which only requests that make something bring along.
fn umask_of(caller: &Caller) -> u32 {
    const NOBODY_ELSE: u32 = 0o077;
    if caller.pid == 0 || caller.umask != 0 {
        return caller.umask;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", caller.pid)).unwrap_or_default();
    let umask = status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    umask.unwrap_or(NOBODY_ELSE)
}
