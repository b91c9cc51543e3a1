//! Copy-up: what is to be changed and may not be where it is, is copied to a branch on the left (Unionfs, section 2).
//!
//! A copy is made whole in the work directory and then renamed to its place, so there is the old object or the new one,
//! never a part.

use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLockReadGuard};

use rustix::io::Errno as SystemError;
use vnode::{
    Attributes, Caller, Creation, Errno, FileKind, Name, NameBuf, OpenFile, OpenFlags, RenameMode, Result, SeekTarget,
    SetAttributes, SetTime, VnodeRef, XattrMode,
};

use super::branches::Member;
use super::identity::Identity;
use super::metacopy::{NewMark, is_marked};
use super::node::{Above, Instance, NO_COUNT, Node, Whereabouts};
use super::settings::{Ownership, Rights};
use super::work::Purpose;
use super::{Union, links, whiteout, work};

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

/// How often an object may move while its copy is made before we give up.
const ATTEMPTS: usize = 16;
/// Data is copied in parts of this size where the kernel cannot copy it.
const PART_BYTES: usize = 256 << 10;

impl Union {
    /// Whether what is in the member may be changed, there or in a copy.
    pub(super) fn can_write(&self, member: &Member) -> bool {
        let Some(position) = self.branches.position(member) else { return false };
        self.branches.may_change(member) || self.branches.writable_at_or_left_of(position).is_some()
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
    pub(super) fn writable(self: &Arc<Self>, caller: &Caller, extent: Extent) -> Result<Instance> {
        self.writable_within(caller, extent, usize::MAX)
    }

    /// As [`Node::writable`], of a file with what keeps it there while it is changed.
    pub(super) fn held_writable(
        self: &Arc<Self>,
        caller: &Caller,
        extent: Extent,
    ) -> Result<(Option<RwLockReadGuard<'_, ()>>, Instance)> {
        for _ in 0..ATTEMPTS {
            let instance = self.writable(caller, extent)?;
            if self.kind == FileKind::Directory {
                return Ok((None, instance));
            }
            let object = self.shared();
            if self.leftmost().is_same(&instance) {
                return Ok((Some(object), instance));
            }
        }
        Err(Errno::EAGAIN)
    }

    /// As [`Node::writable`], in a branch no further to the right than `limit`.
    pub(super) fn writable_within(self: &Arc<Self>, caller: &Caller, extent: Extent, limit: usize) -> Result<Instance> {
        let leftmost = self.leftmost();
        if self.is_nameless() {
            return self.with_data(caller, extent);
        }
        let Some(target) = self.target_of_copy(&leftmost.member, limit)? else {
            return self.with_data(caller, extent);
        };
        if self.kind != FileKind::Directory {
            self.copy_up(caller, extent, limit)?;
            // Another may have made it.
            return self.with_data(caller, extent);
        }
        self.directory_in(caller, &target)?;
        Ok(self.leftmost())
    }

    /// The leftmost instance, which may be changed where it is, with as much of its data. A metadata-only copy that does not
    /// find room for them may move.
    fn with_data(self: &Arc<Self>, caller: &Caller, extent: Extent) -> Result<Instance> {
        match self.bring_data(extent) {
            Err(error) if self.passes_over(error) && !self.is_nameless() => {
                let position = self.union.branches.position(&self.leftmost().member).ok_or(Errno::ESTALE)?;
                self.copy_up(caller, extent, position.checked_sub(1).ok_or(error)?)?;
                self.bring_data(extent)?;
            }
            brought => brought?,
        }
        Ok(self.leftmost())
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

    fn copy_up(self: &Arc<Self>, caller: &Caller, extent: Extent, mut limit: usize) -> Result<Instance> {
        let _copying = self.alone();
        let original = self.leftmost();
        if self.is_nameless() {
            return Ok(original);
        }
        loop {
            let Some(target) = self.target_of_copy(&original.member, limit)? else { return Ok(original) };
            match self.copy_to(caller, extent, &original, &target) {
                Err(error) if self.passes_over(error) => {
                    let position = self.union.branches.position(&target).ok_or(Errno::ESTALE)?;
                    limit = position.checked_sub(1).ok_or(error)?;
                }
                copied => return copied.map(|()| self.leftmost()),
            }
        }
    }

    fn copy_to(
        self: &Arc<Self>,
        caller: &Caller,
        extent: Extent,
        original: &Instance,
        target: &Arc<Member>,
    ) -> Result<()> {
        let moves = self.union.branches.may_change(&original.member);
        if moves {
            self.may_move(original)?;
        }
        let server = Caller::server();
        let was_shared = self.names.load(Ordering::Relaxed) != NO_COUNT;
        let rights = if moves { None } else { self.union.rights_of_copy(caller) };
        // What moves is no longer there for its data to be found.
        let can_wait = extent == Extent::Nothing && !moves;
        let mark = if can_wait { self.mark_of_copy(original, target)? } else { None };
        if mark.is_some() {
            target.work.note_metacopies()?;
        }
        let data = self.data()?;
        let (name, copy) = copy_of(original, target, &How { extent, data, mark, rights })?;
        // Without a name it lives as long as it is open, and nobody may have opened it again yet.
        let is_nowhere = self.kind == FileKind::Regular && matches!(self.whereabouts(), Whereabouts::Nowhere);
        let held = is_nowhere.then(|| copy.open(&server, OpenFlags::READ)).transpose();
        let placed = held.and_then(|held| self.finish_copy(caller, original, target, &name, &copy).map(|()| held));
        match placed {
            Ok(held) => self.hold(held),
            Err(error) => {
                target.work.discard(&name);
                return Err(error);
            }
        }
        let ino = copy.getattr(&server)?.ino;
        self.moved_to(Instance::new(target, copy, ino));
        self.call_followers();
        if moves {
            self.remove_original(original);
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
        let has_link_beside = u32::from(self.names.load(Ordering::Relaxed) != NO_COUNT);
        let names = original.vnode.getattr(&Caller::server())?.nlink.saturating_sub(has_link_beside);
        let is_direct =
            self.union.direct_in(&original.member).iter().any(|file| std::ptr::eq(&raw const *file.node, self));
        if names > 1 || is_direct { Err(Errno::EXDEV) } else { Ok(()) }
    }

    /// Removes what a copy has taken the place of, in a branch that may be changed: users see nothing of it.
    fn remove_original(&self, original: &Instance) {
        let Whereabouts::At(Above { directory, stored }) = self.whereabouts() else { return };
        let _names = directory.alone();
        let (server, stored) = (Caller::server(), stored.as_name());
        let Some(place) = directory.instance_in(&original.member) else { return };
        let is_original = |entry: vnode::Entry| entry.vnode.handle() == original.vnode.handle();
        if self.was_at(&directory, stored) && place.lookup(&server, stored).is_ok_and(is_original) {
            let _ = keeping_times(&place, || place.unlink(&server, stored));
        }
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
        if names < 2 {
            self.identity.bring(copy, NO_COUNT)?;
            self.place(caller, name, target)?;
            self.names.store(NO_COUNT, Ordering::Relaxed);
            return Ok(());
        }
        // The names of the copy are as many before it comes to its place as after, so that its count is right at any time.
        self.identity.bring(copy, names - 1)?;
        links::share(&self.identity, target, copy)?;
        if let Err(error) = self.place(caller, name, target) {
            links::unshare(&self.identity, target);
            return Err(error);
        }
        self.names.store(names - 1, Ordering::Relaxed);
        Ok(())
    }

    /// Renames a finished copy to where the object is seen now.
    fn place(self: &Arc<Self>, caller: &Caller, name: &NameBuf, target: &Arc<Member>) -> Result<()> {
        let server = Caller::server();
        let work = target.work.directory()?;
        for _ in 0..ATTEMPTS {
            let Above { directory, stored } = match self.whereabouts() {
                Whereabouts::At(above) => above,
                // Open, and without a name: so is the copy.
                Whereabouts::Nowhere => return work.unlink(&server, name.as_name()),
                Whereabouts::Unknown => return Err(Errno::ESTALE),
            };
            let place = directory.directory_in(caller, target)?;
            let _names = directory.alone();
            if self.was_at(&directory, stored.as_name()) {
                return keeping_times(&place, || {
                    work.rename(&server, name.as_name(), &place, stored.as_name(), RenameMode::NoReplace)
                });
            }
        }
        Err(Errno::EAGAIN)
    }

    /// The directory in a branch, made there with all above it if need be.
    pub(super) fn directory_in(self: &Arc<Self>, caller: &Caller, member: &Arc<Member>) -> Result<VnodeRef> {
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

    /// The directory in a branch, for a change that a caller makes there: the leftmost instance decides who may, and what
    /// new objects inherit.
    pub(super) fn place_in(self: &Arc<Self>, caller: &Caller, member: &Arc<Member>) -> Result<VnodeRef> {
        let place = self.directory_in(caller, member)?;
        let leftmost = self.leftmost();
        if !Arc::ptr_eq(&leftmost.member, member) {
            copy_rights(&leftmost.vnode, &place)?;
        }
        Ok(place)
    }

    /// A caller has changed something in the instance of a branch: users see that by the times of the leftmost.
    pub(super) fn was_changed_in(&self, member: &Member) {
        let leftmost = self.leftmost();
        if !std::ptr::eq(&raw const *leftmost.member, member) && self.union.branches.may_change(&leftmost.member) {
            let now = SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() };
            // The change is made.
            let _ = leftmost.vnode.setattr(&Caller::server(), &now);
        }
    }

    /// Makes the directory in a branch that has the directory above it, as it is seen elsewhere.
    fn make_in(
        self: &Arc<Self>,
        caller: &Caller,
        member: &Arc<Member>,
        above: &Above,
        parent: &VnodeRef,
    ) -> Result<VnodeRef> {
        let stored = above.stored.as_name();
        let _names = above.directory.alone();
        if let Some(made) = self.instance_in(member) {
            return Ok(made);
        }
        if !self.was_at(&above.directory, stored) {
            return Err(Errno::ESTALE);
        }
        if !self.would_show_in(member, above)? {
            return Err(Errno::EXDEV);
        }
        let server = Caller::server();
        // On the right of the leftmost, that decides.
        let is_leftmost = self.union.branches.position(member) < self.union.branches.position(&self.leftmost().member);
        let rights = if is_leftmost { self.union.rights_of_copy(caller) } else { None };
        let (work, name) = (member.work.directory()?, member.work.name());
        let directory = work.mkdir(&server, name.as_name(), 0o700)?.vnode;
        let made = copy_attributes(&self.leftmost().vnode, &directory, rights).and_then(|()| {
            self.keep_identity(member, &directory)?;
            keeping_times(parent, || work.rename(&server, name.as_name(), parent, stored, RenameMode::NoReplace))
        });
        if let Err(error) = made {
            member.work.discard(&name);
            return Err(error);
        }
        let ino = directory.getattr(&server)?.ino;
        self.add_instance(Instance::new(member, directory.clone(), ino));
        Ok(directory)
    }

    /// Has this directory be known as it is when it comes to a branch that was there earlier than all that have it.
    fn keep_identity(&self, member: &Member, made: &VnodeRef) -> Result<()> {
        if self.instances().iter().any(|instance| instance.member.age() < member.age()) {
            return Ok(());
        }
        member.work.note_copied_directories()?;
        self.identity.bring(made, NO_COUNT)?;
        // Without attributes it cannot be in that branch.
        if Identity::brought(made)?.is_some() { Ok(()) } else { Err(Errno::EXDEV) }
    }

    /// Finds where an object is that was reached by its handle.
    pub(super) fn find_whereabouts(self: &Arc<Self>) -> Result<()> {
        if !matches!(self.whereabouts(), Whereabouts::Unknown) {
            return Ok(());
        }
        let Instance { member, vnode, .. } = self.leftmost();
        let path = Member::path_in_layer(&member.base, &vnode)?;
        let found = self.union.node_at(&path)?;
        if Arc::ptr_eq(&found, self) { Ok(()) } else { Err(Errno::ESTALE) }
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

/// Does something to a directory that users are not to see of its times.
pub(super) fn keeping_times(directory: &VnodeRef, change: impl FnOnce() -> Result<()>) -> Result<()> {
    let server = Caller::server();
    let before = directory.getattr(&server)?;
    change()?;
    // The change is made; times that cannot be put back are no reason to say otherwise.
    let _ = directory.setattr(&server, &times_of(&before));
    Ok(())
}

fn times_of(attributes: &Attributes) -> SetAttributes {
    SetAttributes {
        atime: Some(SetTime::To(attributes.atime)),
        mtime: Some(SetTime::To(attributes.mtime)),
        ..SetAttributes::default()
    }
}

/// Makes a copy in the work directory of a branch, with an identity, of a file that others may be writing: it is as the
/// file was at one time.
///
/// # Errors
/// `EBUSY` if it is written whenever it is read.
pub(super) fn copy_untouched(original: &Instance, target: &Member, identity: &Identity) -> Result<NameBuf> {
    let server = Caller::server();
    for _ in 0..ATTEMPTS {
        let before = original.vnode.getattr(&server)?;
        let how = How { extent: Extent::All, data: None, mark: None, rights: None };
        let (name, copy) = copy_of(original, target, &how)?;
        let after = original.vnode.getattr(&server)?;
        if (before.ctime, before.size) == (after.ctime, after.size) {
            return identity.bring(&copy, NO_COUNT).map(|()| name);
        }
        target.work.discard(&name);
    }
    Err(Errno::EBUSY)
}

/// How a copy is made.
struct How {
    extent: Extent,
    /// What has the original's data, if that is a metadata-only copy itself.
    data: Option<Instance>,
    /// The copy is to have this instead of data, if it can.
    mark: Option<NewMark>,
    /// What it has instead of the original's.
    rights: Option<Rights>,
}

/// Makes a copy in the work directory of a branch, complete but for its identity.
fn copy_of(original: &Instance, target: &Member, how: &How) -> Result<(NameBuf, VnodeRef)> {
    let (work, name) = (target.work.directory()?, target.work.name_for(Purpose::Copy));
    match copy_into(&work, name.as_name(), original, how) {
        Ok(copy) => Ok((name, copy)),
        Err(error) => {
            target.work.discard(&name);
            Err(error)
        }
    }
}

/// Makes a copy of anything but a directory by a name that nothing has, complete but for its identity.
///
/// # Errors
/// Those of copying; `EIO` for a metadata-only copy.
pub(super) fn copy_whole(directory: &VnodeRef, name: Name<'_>, original: &Instance) -> Result<VnodeRef> {
    if is_marked(&original.vnode)? {
        return Err(Errno::EIO);
    }
    copy_into(directory, name, original, &How { extent: Extent::All, data: None, mark: None, rights: None })
}

fn copy_into(work: &VnodeRef, name: Name<'_>, original: &Instance, how: &How) -> Result<VnodeRef> {
    let server = Caller::server();
    let (from, rights) = (&original.vnode, how.rights);
    let attributes = from.getattr(&server)?;
    match attributes.kind {
        FileKind::Regular => {
            let creation = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
            let made = work.create(&server, name, &creation)?;
            let size = match how.extent {
                Extent::UpTo(size) if size < attributes.size && may_be_cut(from, &attributes)? => size,
                _ => attributes.size,
            };
            let has_mark = how.mark.as_ref().map_or(Ok(false), |mark| mark.set(&made.entry.vnode))?;
            if has_mark {
                made.file.truncate(&server, size, false)?;
            } else if size > 0 {
                let data = how.data.as_ref().map_or(from, |data| &data.vnode);
                copy_data(&*data.open(&server, OpenFlags::READ)?, &*made.file, size)?;
            }
            copy_attributes(from, &made.entry.vnode, rights)?;
            if size < attributes.size {
                let changed = SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() };
                made.entry.vnode.setattr(&server, &changed)?;
            }
            made.file.fsync(&server, false)?;
            Ok(made.entry.vnode)
        }
        FileKind::Symlink => {
            let made = work.symlink(&server, name, &from.readlink(&server)?)?.vnode;
            copy_attributes(from, &made, rights)?;
            Ok(made)
        }
        FileKind::Directory => Err(Errno::EISDIR),
        kind => {
            let made = work.mknod(&server, name, kind, 0o600, attributes.rdev)?.vnode;
            if whiteout::has_number(&attributes) {
                whiteout::mark_as_users(&made)?;
            }
            copy_attributes(from, &made, rights)?;
            Ok(made)
        }
    }
}

/// Whether a copy that has less of the data is as the original is after it is cut off, also to those who find no more than
/// the copy: nothing else changes with the data, and no other name leads to the copy before it has its place.
fn may_be_cut(original: &VnodeRef, attributes: &Attributes) -> Result<bool> {
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

/// Copies data, holes left out.
pub(super) fn copy_data(from: &dyn OpenFile, to: &dyn OpenFile, size: u64) -> Result<()> {
    let server = Caller::server();
    if let (Some(source), Some(target)) = (from.backing(), to.backing())
        && rustix::fs::ioctl_ficlone(target, source).is_ok()
    {
        return to.truncate(&server, size, false);
    }
    let mut offset = 0;
    while offset < size {
        let data = match from.seek(&server, offset, SeekTarget::Data) {
            Ok(data) => data,
            Err(Errno::ENXIO) => break,
            Err(error) => return Err(error),
        };
        let hole = from.seek(&server, data, SeekTarget::Hole)?;
        copy_part(from, to, data, hole.min(size))?;
        offset = hole;
    }
    to.truncate(&server, size, false)
}

/// Copies a range, by the kernel if it can.
fn copy_part(from: &dyn OpenFile, to: &dyn OpenFile, start: u64, end: u64) -> Result<()> {
    let mut offset = start;
    if let (Some(source), Some(target)) = (from.backing(), to.backing()) {
        while offset < end {
            let (mut source_offset, mut target_offset) = (offset, offset);
            let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let copied =
                rustix::fs::copy_file_range(source, Some(&mut source_offset), target, Some(&mut target_offset), wanted);
            match copied {
                // The file has become shorter meanwhile.
                Ok(0) => return Ok(()),
                Ok(bytes) => offset += bytes as u64,
                Err(SystemError::INTR) => {}
                Err(SystemError::XDEV | SystemError::INVAL | SystemError::NOSYS | SystemError::OPNOTSUPP) => break,
                Err(error) => return Err(Errno::new(error.raw_os_error())),
            }
        }
    }
    let server = Caller::server();
    let mut buffer = vec![0; PART_BYTES];
    while offset < end {
        let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(PART_BYTES);
        let read = from.read_at(&server, offset, &mut buffer[..wanted])?;
        if read == 0 {
            break;
        }
        work::write_all(to, offset, &buffer[..read])?;
        offset += read as u64;
    }
    Ok(())
}

/// Gives a copy extended attributes and times of the original, and unless it has others, its owner, access control lists
/// and permissions, in an order in which none undoes another.
pub(super) fn copy_attributes(original: &VnodeRef, copy: &VnodeRef, rights: Option<Rights>) -> Result<()> {
    let server = Caller::server();
    let attributes = original.getattr(&server)?;
    let (uid, gid) = rights.map_or((attributes.uid, attributes.gid), |rights| (rights.uid, rights.gid));
    set_owner(copy, uid, gid)?;
    copy_xattrs(original, copy, rights.is_none())?;
    let mode = match (attributes.kind, rights) {
        (FileKind::Symlink, _) => None,
        (_, None) => Some(attributes.mode),
        (FileKind::Directory, Some(rights)) => Some(rights.directory_mode()),
        (_, Some(rights)) => Some(rights.mode),
    };
    copy.setattr(&server, &SetAttributes { mode, ..times_of(&attributes) }).map(drop)
}

/// Gives a directory owner, mode and access control lists of another instance, if they differ.
fn copy_rights(from: &VnodeRef, to: &VnodeRef) -> Result<()> {
    let server = Caller::server();
    let (wanted, present) = (from.getattr(&server)?, to.getattr(&server)?);
    if (wanted.uid, wanted.gid) != (present.uid, present.gid) {
        set_owner(to, wanted.uid, wanted.gid)?;
    }
    for list in [&b"system.posix_acl_access"[..], b"system.posix_acl_default"] {
        let value = |object: &VnodeRef| match object.getxattr(&server, list) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        };
        match (value(from)?, value(to)?) {
            (wanted, present) if wanted == present => {}
            (Some(wanted), _) => to.setxattr(&server, list, &wanted, XattrMode::Set)?,
            (None, _) => to.removexattr(&server, list)?,
        }
    }
    if to.getattr(&server)?.mode != wanted.mode {
        to.setattr(&server, &SetAttributes { mode: Some(wanted.mode), ..SetAttributes::default() })?;
    }
    Ok(())
}

fn set_owner(object: &VnodeRef, uid: u32, gid: u32) -> Result<()> {
    let owner = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
    match object.setattr(&Caller::server(), &owner) {
        // A server that is no superuser owns all that it makes.
        Err(Errno::EPERM) if !rustix::process::geteuid().is_root() => Ok(()),
        result => result.map(drop),
    }
}

/// As [`copy_attributes`], to an object that may have extended attributes which the original does not have.
pub(super) fn replace_attributes(original: &VnodeRef, copy: &VnodeRef) -> Result<()> {
    let server = Caller::server();
    let (wanted, there) = (original.listxattr(&server)?, copy.listxattr(&server)?);
    let is_wanted = |name: &[u8]| wanted.split(|&byte| byte == 0).any(|wanted| wanted == name);
    let surplus = there.split(|&byte| byte == 0).filter(|name| !name.is_empty() && !is_wanted(name));
    for name in surplus.filter(|name| !whiteout::is_own_attribute(name)) {
        match copy.removexattr(&server, name) {
            Err(Errno::ENODATA) => {}
            result => result?,
        }
    }
    copy_attributes(original, copy, None)
}

fn copy_xattrs(original: &VnodeRef, copy: &VnodeRef, with_rights: bool) -> Result<()> {
    let server = Caller::server();
    let names = original.listxattr(&server)?;
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty() && !whiteout::is_own_attribute(name)) {
        if !with_rights && decides_access(name) {
            continue;
        }
        let value = match original.getxattr(&server, name) {
            Ok(value) => value,
            Err(Errno::ENODATA) => continue,
            // A capability of no bytes can be set but not read.
            Err(Errno::EINVAL) => Vec::new(),
            Err(error) => return Err(error),
        };
        match copy.setxattr(&server, name, &value, XattrMode::Set) {
            // Those that decide what is allowed may not get lost; others may, where they cannot be kept.
            Err(Errno::EOPNOTSUPP | Errno::EPERM) if !decides_access(name) => {}
            result => result?,
        }
    }
    Ok(())
}

fn decides_access(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_") || name.starts_with(b"security.")
}
