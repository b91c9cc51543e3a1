//! New objects, and new names for existing ones (Unionfs, section 3.4).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Name, OpenFlags, Result,
    VnodeRef, profile,
};

use super::file::UnionFile;
use super::placement::FullBranches;
use super::remove::remove_marked_directory;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::identity::{Identity, UNCOUNTED_NAMES};
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout;
use crate::union::branch::whiteout_device;
use crate::union::copy_up::extent::DataExtent;
use crate::union::lookup::search::SearchResult;
use crate::union::state::guards::NameChanges;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation, Union};

/// Maximum number of attempts if an obstacle changes meanwhile.
const MAX_ATTEMPTS: usize = 16;

impl Node {
    /// Creates and opens a regular file, or opens the existing one.
    pub(crate) fn create_file(self: &Arc<Self>, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let exclusive = Creation { flags: how.flags.with(OpenFlags::EXCLUSIVE), ..*how };
        for _ in 0..MAX_ATTEMPTS {
            let made = self.make(caller, name, |parent, stored| {
                let created = parent.create_verified(caller, stored, &exclusive)?;
                Ok((created.file, created.entry))
            });
            match made {
                Ok((node, file, attributes)) => {
                    let file = UnionFile::new(Arc::clone(&node), file, how.flags);
                    return Ok(Created { entry: node.entry(attributes), file: profile::open_file(file) });
                }
                Err(Errno::EEXIST) if !how.flags.is_exclusive() => {}
                Err(error) => return Err(error),
            }
            match self.open_existing(caller, name, how.flags) {
                Err(Errno::ENOENT) => {}
                opened => return opened,
            }
        }
        // It cannot vanish that often: the branch has another spelling of the name, and cannot have both.
        Err(Errno::EEXIST)
    }

    fn open_existing(self: &Arc<Self>, caller: &Caller, name: Name<'_>, flags: OpenFlags) -> Result<Created> {
        let Entry { vnode, attributes } = self.look_up(caller, name)?;
        match attributes.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR),
            FileKind::Symlink => return Err(Errno::ELOOP),
            _ => return Err(Errno::ENXIO),
        }
        let node = vnode.as_any().downcast_ref::<Node>().ok_or(Errno::ESTALE)?;
        let file = UnionFile::open(&node.reference(), caller, flags)?;
        let attributes = if flags.truncates() { node.attributes(caller)? } else { attributes };
        Ok(Created { entry: Entry { vnode, attributes }, file })
    }

    /// Creates an unnamed file and opens it.
    pub(crate) fn make_unnamed(self: &Arc<Self>, caller: &Caller, how: &Creation) -> Result<Created> {
        self.require_directory()?;
        self.check_change_names_if_copied(caller)?;
        let mut full = FullBranches::default();
        let (target, created) = loop {
            let (target, parent) = self.place_for_new(caller, usize::MAX, &mut full)?;
            match parent.tmpfile(caller, how) {
                Err(error) if self.tries_next_branch(error) => full.exclude(Arc::clone(&target), error),
                created => break (target, created?),
            }
        };
        let node = self.union.node_of_new(&target, &created.entry)?;
        node.set_location(NodeLocation::Nowhere);
        let file = UnionFile::new(Arc::clone(&node), created.file, how.flags);
        Ok(Created { entry: node.entry(created.entry.attributes), file: profile::open_file(file) })
    }

    /// Creates a directory.
    pub(crate) fn make_directory(self: &Arc<Self>, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let made = self.make(caller, name, |parent, stored| Ok(((), parent.mkdir_verified(caller, stored, mode)?)));
        made.map(|(node, (), attributes)| node.entry(attributes))
    }

    /// Creates a fifo, socket, device or regular file.
    pub(crate) fn make_special(
        self: &Arc<Self>,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        let make = |parent: &VnodeRef, stored: Name<'_>| {
            let entry = parent.mknod_verified(caller, stored, kind, mode, device)?;
            if whiteout_device::has_number(&entry.attributes)
                && let Err(error) = whiteout::mark_user_device(&entry.vnode)
            {
                // It is a whiteout so far, at a name where nothing was visible.
                parent.unlink_verified(&Caller::server(), stored)?;
                return Err(error);
            }
            Ok(((), entry))
        };
        self.make(caller, name, make).map(|(node, (), attributes)| node.entry(attributes))
    }

    /// Creates a symlink.
    pub(crate) fn make_symlink(self: &Arc<Self>, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let made = self.make(caller, name, |parent, stored| Ok(((), parent.symlink_verified(caller, stored, target)?)));
        made.map(|(node, (), attributes)| node.entry(attributes))
    }

    /// Creates one more name of an object, in the branch that has the object.
    pub(crate) fn make_link(self: &Arc<Self>, caller: &Caller, target: &Arc<Node>, name: Name<'_>) -> Result<Entry> {
        self.require_directory()?;
        let stored = whiteout::stored_name(name)?;
        let stored = Name::new(&stored)?;
        if self.search_locked(caller, stored)?.found.is_some() {
            return Err(Errno::EEXIST);
        }
        if target.is_hidden.load(Ordering::Relaxed) {
            return Err(Errno::ENOENT);
        }
        if target.kind == FileKind::Directory {
            self.check_access(caller, AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits()))?;
            return Err(Errno::EPERM);
        }
        self.check_copyable(caller)?;
        self.check_change_names_if_copied(caller)?;
        let mut limit = usize::MAX;
        for _ in 0..MAX_ATTEMPTS {
            let can_be_linked = target.can_be_linked_from(caller, self, limit);
            let writable = can_be_linked.and_then(|()| target.writable_within(caller, DataExtent::Nothing, limit));
            let instance = match writable {
                // The name by which it would be copied to another branch is unknown.
                Err(Errno::ESTALE) if matches!(target.location(), NodeLocation::Unknown) => return Err(Errno::EXDEV),
                found => found?,
            };
            let Instance { member, vnode, .. } = &instance;
            target.record_data_path(caller)?;
            let own = self.union.branches.position(member).ok_or(Errno::ESTALE)?;
            let cannot_move = target.is_unlinked();
            if !self.can_be_in(member)? {
                if cannot_move {
                    return Err(Errno::EXDEV);
                }
                limit = self.union.branches.position(&*self.nearest_branch(own)?).ok_or(Errno::ESTALE)?;
                continue;
            }
            let parent = self.directory_for_change(caller, member)?;
            // A link to an object that moves to another branch meanwhile would be one to its original.
            let _object = target.read_guard_unless_cancelled(caller)?;
            if !target.leftmost().is_same(&instance) {
                continue;
            }
            let names = [stored];
            let _names = self.write_guard_for(NameChanges::Names(&names, Some(member)));
            let search = self.search(caller, stored)?;
            if search.found.is_some() {
                return Err(Errno::EEXIST);
            }
            let has_whiteout = match self.whiteout_here(&search, member) {
                Ok(has_whiteout) => has_whiteout,
                // An unnamed file stays where it was created.
                Err(_) if cannot_move => return Err(Errno::EXDEV),
                Err(nearest) => {
                    limit = nearest;
                    continue;
                }
            };
            let link = |parent: &VnodeRef, stored: Name<'_>| Ok(((), parent.link_verified(caller, vnode, stored)?));
            let ((), entry) = self.make_over_whiteout((member, &parent), stored, has_whiteout, &link)?;
            self.touch_leftmost(member);
            target.record_location(self, stored);
            return Ok(Arc::clone(target).entry(entry.attributes));
        }
        Err(Errno::EAGAIN)
    }

    /// Creates an object at an unused name, in the branch for new objects.
    fn make<T>(
        self: &Arc<Self>,
        caller: &Caller,
        name: Name<'_>,
        make: impl Fn(&VnodeRef, Name<'_>) -> Result<(T, Entry)>,
    ) -> Result<(Arc<Node>, T, Attributes)> {
        self.require_directory()?;
        let stored = whiteout::stored_name(name)?;
        let stored = Name::new(&stored)?;
        let mut limit = usize::MAX;
        let mut full = FullBranches::default();
        for _ in 0..MAX_ATTEMPTS + self.union.branches.slots().len() {
            if self.union.branches.slots().len() > 1 && self.search_locked(caller, stored)?.found.is_some() {
                // Checked before directories are created in vain.
                return Err(Errno::EEXIST);
            }
            self.check_change_names_if_copied(caller)?;
            let (target, parent) = match self.place_for_new(caller, limit, &mut full) {
                // The directory has just been moved to where it cannot be in that branch.
                Err(Errno::EXDEV) => continue,
                placed => placed?,
            };
            let names = [stored];
            let _names = self.write_guard_for(NameChanges::Names(&names, Some(&target)));
            let search = self.search(caller, stored)?;
            if search.found.is_some() {
                return Err(Errno::EEXIST);
            }
            let has_whiteout = match self.whiteout_here(&search, &target) {
                Ok(has_whiteout) => has_whiteout,
                Err(nearest) => {
                    limit = nearest;
                    continue;
                }
            };
            let (value, entry) = match self.make_over_whiteout((&target, &parent), stored, has_whiteout, &make) {
                Err(error) if self.tries_next_branch(error) => {
                    full.exclude(Arc::clone(&target), error);
                    continue;
                }
                made => made?,
            };
            self.touch_leftmost(&target);
            let node = self.union.node_of_new(&target, &entry)?;
            node.record_location(self, stored);
            return Ok((node, value, entry.attributes));
        }
        Err(Errno::EAGAIN)
    }

    /// Returns whether the whiteout that a search found is in the member. A whiteout in a higher branch would hide a new object
    /// in the member: then the error is that branch's position, below which nothing can be created.
    fn whiteout_here(&self, search: &SearchResult, member: &BranchMember) -> std::result::Result<bool, usize> {
        let branches = &self.union.branches;
        let Some(slot) = search.whiteout.as_ref().and_then(|member| branches.position(member)) else {
            return Ok(false);
        };
        match branches.position(member) {
            Some(own) if slot >= own => Ok(slot == own),
            _ => Err(slot),
        }
    }

    fn search_locked(&self, caller: &Caller, stored: Name<'_>) -> Result<SearchResult> {
        let _names = self.read_guard();
        self.search(caller, stored)
    }

    /// Creates an object at a name that may have a whiteout.
    fn make_over_whiteout<T>(
        &self,
        (member, parent): (&BranchMember, &VnodeRef),
        stored: Name<'_>,
        has_whiteout: bool,
        make: &impl Fn(&VnodeRef, Name<'_>) -> Result<(T, Entry)>,
    ) -> Result<(T, Entry)> {
        if !has_whiteout {
            return make(parent, stored);
        }
        let had_device = whiteout::displace_device(parent, stored)?;
        // Beside its whiteout an object is visible, and a directory hides the lower branches.
        let made = make(parent, stored).and_then(|(value, entry)| {
            let is_marked = !entry.attributes.is_directory() || self.mark_opaque(member, parent, stored, &entry)?;
            Ok(((value, entry), is_marked))
        });
        if made.is_err() && had_device {
            whiteout::restore_device(parent, stored);
        }
        let (made, is_marked) = made?;
        if is_marked {
            member.uncover(parent, stored);
        }
        Ok(made)
    }

    /// Marks a directory that was just created beside its whiteout as opaque; returns whether it is, so that the whiteout may
    /// be removed.
    ///
    /// # Errors
    /// Errors from setting the mark: the directory is removed again. If it cannot be, it stays correct as long as the whiteout
    /// does.
    fn mark_opaque(&self, member: &BranchMember, parent: &VnodeRef, stored: Name<'_>, made: &Entry) -> Result<bool> {
        let Err(error) = whiteout::set_opaque(&made.vnode, self.union.settings.whiteouts) else { return Ok(true) };
        match remove_marked_directory(member, parent, stored) {
            Err(_) if whiteout::has_whiteout_file(parent, stored) == Ok(true) => Ok(false),
            _ => Err(error),
        }
    }
}

impl Union {
    /// The vnode of an object that was just created in a branch.
    fn node_of_new(self: &Arc<Self>, member: &Arc<BranchMember>, entry: &Entry) -> Result<Arc<Node>> {
        let Entry { vnode, attributes } = entry;
        let identity =
            self.require_view_room(Identity::native(&member.base.numbers, &vnode.handle(), attributes.ino)?)?;
        let instance = Instance::new(member, vnode.clone(), attributes.ino);
        let found = (self.branches.generation(), vec![instance]);
        let node = self.find_or_insert((identity, UNCOUNTED_NAMES), attributes.kind, found);
        node.record_own_data(node.copy_count());
        Ok(node)
    }
}
