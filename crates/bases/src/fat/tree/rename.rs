//! Renames: moves, replacements, exchanges and whiteouts, within and across directories.

use std::sync::{Arc, MutexGuard, RwLockWriteGuard};

use vnode::{Caller, Errno, FileKind, InodeNumber, Name, RenameMode, Result};

use crate::fat::directory::contents::PreparedEntry;
use crate::fat::format::{Entry, FatWidth};
use crate::unix::permissions;
use crate::unix::renames::{self, Nesting, Rename, Target};

use super::changing::Change;
use super::inode::{Inode, State};
use super::links::LockedStore;
use super::pending::LinkOrder;
use super::relink::copy_object;

/// The locked directories of a rename.
struct LockedParents<'a> {
    from: RwLockWriteGuard<'a, State>,
    /// `None` if it is the source's directory.
    to: Option<RwLockWriteGuard<'a, State>>,
    /// Inode numbers from the source's (target's) directory up to the root; empty if both are in one directory, and only the
    /// directory's own if no other can be the target (the source).
    from_ancestors: Vec<InodeNumber>,
    to_ancestors: Vec<InodeNumber>,
    _renames: Option<MutexGuard<'a, ()>>,
}

impl<'a> LockedParents<'a> {
    fn lock(
        (from, name): (&'a Inode, Name<'_>),
        (to, to_name): (&'a Inode, Name<'_>),
        mode: RenameMode,
    ) -> Result<Self> {
        if from.number == to.number {
            let mut state = from.write();
            from.load(&mut state)?;
            return Ok(Self { from: state, to: None, from_ancestors: vec![], to_ancestors: vec![], _renames: None });
        }
        let renames = from.volume.lock_renames();
        // From here on no directory moves: if neither name is a directory's, neither of the two can be in the other's way up, which may
        // be long, and need not be taken.
        let mut may_nest = mode == RenameMode::Exchange || from.has_directory(name) || to.has_directory(to_name);
        loop {
            let (from_ancestors, to_ancestors) = match may_nest {
                true => (ancestor_numbers(from), ancestor_numbers(to)),
                false => (vec![from.number], vec![to.number]),
            };
            let (mut from_state, mut to_state) = lock_both(from, to);
            to.load(&mut to_state)?;
            from.load(&mut from_state)?;
            // Before the directories were locked, their own names may have become those of other objects.
            let is_directory = || from.names_directory(&from_state, name) || to.names_directory(&to_state, to_name);
            if may_nest || !is_directory() {
                let (from, to) = (from_state, Some(to_state));
                return Ok(Self { from, to, from_ancestors, to_ancestors, _renames: Some(renames) });
            }
            may_nest = true;
        }
    }

    fn to(&self) -> &State {
        self.to.as_deref().unwrap_or(&self.from)
    }

    fn to_mut(&mut self) -> &mut State {
        self.to.as_deref_mut().unwrap_or(&mut self.from)
    }
}

/// Locks two directories, of which either may be in the other: never waits for one while it holds the other.
fn lock_both<'a>(one: &'a Inode, other: &'a Inode) -> (RwLockWriteGuard<'a, State>, RwLockWriteGuard<'a, State>) {
    loop {
        let first = one.write();
        if let Some(second) = other.try_write() {
            return (first, second);
        }
        drop(first);
        let second = other.write();
        if let Some(first) = one.try_write() {
            return (first, second);
        }
        drop(second);
        std::thread::yield_now();
    }
}

/// The locked objects of a rename.
struct LockedObjects<'a> {
    /// Present if the target is in the store, and loses a name.
    store: Option<LockedStore<'a>>,
    source: RwLockWriteGuard<'a, State>,
    target: Option<RwLockWriteGuard<'a, State>>,
}

impl<'a> LockedObjects<'a> {
    /// Locks the objects, which are not the same, and the store before them if it is given.
    fn lock(store: Option<&'a Inode>, source: &'a Inode, target: Option<&'a Inode>) -> Result<Self> {
        let store = store.map(LockedStore::lock).transpose()?;
        let order = |inode: &Inode| (inode.kind != FileKind::Directory, inode.number);
        Ok(match target {
            None => Self { store, source: source.write(), target: None },
            Some(target) if order(source) < order(target) => {
                let source = source.write();
                Self { store, source, target: Some(target.write()) }
            }
            Some(target) => {
                let target = target.write();
                Self { store, source: source.write(), target: Some(target) }
            }
        })
    }
}

/// The names of a rename.
#[derive(Clone, Copy)]
struct Names<'a> {
    from_slot: u32,
    to: &'a Inode,
    to_name: Name<'a>,
    /// The slot of the target, if that exists and is not the source.
    to_slot: Option<u32>,
    /// The entries are names of objects in the store.
    from_is_link: bool,
    to_is_link: bool,
}

impl Inode {
    /// Renames `name` in this directory to `to_name` in the directory `to`.
    pub(crate) fn move_entry(
        &self,
        change: &Change<'_>,
        caller: &Caller,
        (name, to, to_name): (Name<'_>, &Inode, Name<'_>),
        mode: RenameMode,
    ) -> Result<()> {
        let replaced = self.move_locked(change, caller, (name, to, to_name), mode)?;
        match (replaced, self.volume.store()) {
            (Some(replaced), Some(store)) => replaced.move_out_of_store(&store),
            _ => Ok(()),
        }
    }

    /// Renames as [`Inode::move_entry`], and returns the target if it had more than one name.
    fn move_locked(
        &self,
        change: &Change<'_>,
        caller: &Caller,
        (name, to, to_name): (Name<'_>, &Inode, Name<'_>),
        mode: RenameMode,
    ) -> Result<Option<Arc<Inode>>> {
        let leaves_whiteout = matches!(mode, RenameMode::Whiteout | RenameMode::WhiteoutNoReplace);
        if leaves_whiteout && !self.volume.has_metadata() {
            return Err(Errno::EINVAL);
        }
        // Declared first, so that an inode whose last reference this is is dropped after the locks are released.
        let source: Arc<Inode>;
        let target: Option<Arc<Inode>>;
        let store: Option<Arc<Inode>>;
        if to.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        if leaves_whiteout {
            self.volume.number_owners(caller.uid, caller.gid)?;
        }
        let mut parents = LockedParents::lock((self, name), (to, to_name), mode)?;
        for directory in [&*parents.from, parents.to()] {
            permissions::check(&directory.metadata.protection, caller, permissions::SEARCH)?;
        }
        let from_slot = self.find_slot(&parents.from, caller, name)?;
        let found = match to.find_slot(parents.to(), caller, to_name) {
            Err(Errno::ENOENT) => None,
            result => Some(result?),
        };
        let is_reserved = |directory: &Inode, name| {
            let units = directory.volume.rules.units_to_find(name);
            units.is_some_and(|units| directory.is_reserved_name(&units))
        };
        // An object in place of another keeps its attributes, by which it could become a file of this base's own.
        if is_reserved(to, to_name) || mode == RenameMode::Exchange && is_reserved(self, name) {
            return Err(Errno::EPERM);
        }
        source = self.child(&parents.from, from_slot)?;
        // A name that differs only in case is the source's own.
        let to_slot = found.filter(|&slot| parents.to.is_some() || slot != from_slot);
        if found.is_some() && to_slot.is_none() {
            let is_same = parents.from.contents()?.shown_name(from_slot).as_deref() == Some(to_name.as_bytes());
            match mode {
                RenameMode::NoReplace | RenameMode::WhiteoutNoReplace if is_same => return Err(Errno::EEXIST),
                RenameMode::Exchange => return Ok(None),
                _ if is_same => return Ok(None),
                // The name of the whiteout would be the new one.
                RenameMode::Whiteout | RenameMode::WhiteoutNoReplace => return Err(Errno::EEXIST),
                _ => {}
            }
        }
        target = match to_slot {
            Some(slot) => Some(to.child(parents.to(), slot)?),
            None => None,
        };
        renames::check_names(target.is_some(), nesting(&parents, &source, target.as_deref()), mode)?;
        if target.as_ref().is_some_and(|target| Arc::ptr_eq(target, &source)) {
            // Both are names of one object.
            return Ok(None);
        }
        let from_is_link = self.is_link(&parents.from, from_slot, &source);
        let to_is_link = match (to_slot, &target) {
            (Some(slot), Some(target)) => to.is_link(parents.to(), slot, target),
            _ => false,
        };
        // No directory may be waited for with the store locked.
        let takes_name = to_is_link && mode != RenameMode::Exchange && source.kind != FileKind::Directory;
        if takes_name {
            self.volume.order_links(change, LinkOrder::StoreLast)?;
        }
        store = self.volume.store().filter(|_| takes_name);
        let mut objects = LockedObjects::lock(store.as_deref(), &source, target.as_deref())?;
        if let (Some(target), Some(state)) = (&target, &mut objects.target)
            && target.kind == FileKind::Directory
        {
            target.load(state)?;
        }
        check_permissions(&parents, &objects, (to, target.as_deref()), caller, mode)?;
        let names = Names { from_slot, to, to_name, to_slot, from_is_link, to_is_link };
        match mode {
            RenameMode::Exchange => self.exchange(&mut parents, &mut objects, names, (&source, target.as_ref()))?,
            _ => {
                let caller = leaves_whiteout.then_some(caller);
                self.replace(&mut parents, &mut objects, names, (&source, target.as_ref()), caller)?;
            }
        }
        drop(objects);
        Ok(target.filter(|_| takes_name))
    }

    /// Returns whether an entry of this directory is a name of an object in the store, which is `object`.
    fn is_link(&self, state: &State, slot: u32, object: &Inode) -> bool {
        let entry = || state.contents().ok()?.entry(slot);
        !object.is_dangling && entry().is_some_and(|entry| self.link_number(&entry).is_some())
    }

    /// Returns whether a name in this directory is that of a directory.
    fn has_directory(&self, name: Name<'_>) -> bool {
        self.read_loaded().is_ok_and(|state| self.names_directory(&state, name))
    }

    /// Returns whether a name in this directory, whose state the caller holds locked and loaded, is that of a directory.
    fn names_directory(&self, state: &State, name: Name<'_>) -> bool {
        let entry = || {
            let contents = state.contents().ok()?;
            let units = self.volume.rules.units_to_find(name)?;
            contents.entry(contents.find_wanted(&units, |slot| !self.is_own_file(contents, slot))?)
        };
        entry().is_some_and(|entry| entry.is_directory())
    }

    /// Moves the source over the target, or to a new name. `whiteout_of` is the caller who leaves a whiteout in its place.
    fn replace(
        &self,
        parents: &mut LockedParents<'_>,
        objects: &mut LockedObjects<'_>,
        names: Names<'_>,
        (source, target): (&Arc<Inode>, Option<&Arc<Inode>>),
        whiteout_of: Option<&Caller>,
    ) -> Result<()> {
        let Names { from_slot, to, to_name, to_slot, from_is_link, to_is_link } = names;
        if to_is_link && objects.store.is_none() {
            return Err(Errno::ENOTDIR);
        }
        self.prepare_parent_change(parents, objects, source)?;
        let size = self.record_size(&objects.source.metadata);
        to.reserve_record(parents.to_mut(), size)?;
        let entry = parents.from.contents()?.entry(from_slot).ok_or(Errno::ENOENT)?;
        let prepared = match to_slot {
            Some(_) => None,
            None => Some(self.prepare_name(parents, names, entry, whiteout_of.is_some())?),
        };
        let whiteout = match whiteout_of {
            Some(caller) => Some(self.make_whiteout(&mut parents.from, caller)?),
            None => None,
        };
        objects.source.metadata.times.changed();
        // Nothing fails from here on.
        let slot = match (to_slot, prepared) {
            (Some(slot), _) => {
                to.forget_record(parents.to_mut(), slot)?;
                parents.to_mut().contents_mut()?.set_entry(slot, |other| copy_object(other, &entry));
                slot
            }
            (None, Some(prepared)) => parents.to_mut().contents_mut()?.insert(&prepared)?,
            (None, None) => return Err(Errno::EIO),
        };
        debug_assert!(to_slot.is_some() || to_name.as_bytes().len() <= vnode::NAME_MAX);
        match whiteout {
            Some(_) => self.forget_record(&mut parents.from, from_slot)?,
            None => self.detach(&mut parents.from, from_slot)?,
        }
        if let (Some(target), Some(state)) = (target, &mut objects.target) {
            match (&mut objects.store, to_slot) {
                (Some(store), Some(slot)) => {
                    target.forget_name(to, slot);
                    target.drop_name(state, store)?;
                }
                _ => target.unlink_state(state),
            }
            if target.kind == FileKind::Directory {
                self.volume.forget_removed(target.number);
            }
        }
        source.forget_name(self, from_slot);
        relink_or_note(source, &mut objects.source, from_is_link, (to, slot));
        if let Some(whiteout) = whiteout {
            self.leave_whiteout(&mut parents.from, from_slot, whiteout)?;
        }
        if let Some(to_state) = &mut parents.to {
            self.change_parent(source, &mut objects.source, to)?;
            to_state.metadata.times.modified();
            to.metadata_changed(to_state);
        }
        to.mark_contents_dirty(parents.to_mut());
        Ok(())
    }

    /// Exchanges the objects of both names.
    fn exchange(
        &self,
        parents: &mut LockedParents<'_>,
        objects: &mut LockedObjects<'_>,
        names: Names<'_>,
        (source, target): (&Arc<Inode>, Option<&Arc<Inode>>),
    ) -> Result<()> {
        let Names { from_slot, to, to_slot, from_is_link, to_is_link, .. } = names;
        let (Some(target), Some(to_slot)) = (target, to_slot) else {
            return Err(Errno::ENOENT);
        };
        self.prepare_parent_change(parents, objects, source)?;
        let sizes = [&Some(&objects.source), &objects.target.as_ref()]
            .map(|state| state.map_or(0, |state| self.record_size(&state.metadata)));
        self.reserve_record(&mut parents.from, sizes[1])?;
        to.reserve_record(parents.to_mut(), sizes[0])?;
        let Some(target_state) = &mut objects.target else { return Err(Errno::ENOENT) };
        if parents.to.is_some() && target.kind == FileKind::Directory {
            target.load(target_state)?;
        }
        objects.source.metadata.times.changed();
        target_state.metadata.times.changed();
        let one = parents.from.contents()?.entry(from_slot).ok_or(Errno::ENOENT)?;
        let other = parents.to().contents()?.entry(to_slot).ok_or(Errno::ENOENT)?;
        self.forget_record(&mut parents.from, from_slot)?;
        to.forget_record(parents.to_mut(), to_slot)?;
        parents.from.contents_mut()?.set_entry(from_slot, |entry| copy_object(entry, &other));
        parents.to_mut().contents_mut()?.set_entry(to_slot, |entry| copy_object(entry, &one));
        source.forget_name(self, from_slot);
        target.forget_name(to, to_slot);
        relink_or_note(source, &mut objects.source, from_is_link, (to, to_slot));
        relink_or_note(target, target_state, to_is_link, (self, from_slot));
        parents.from.metadata.times.modified();
        self.metadata_changed(&mut parents.from);
        self.mark_contents_dirty(&mut parents.from);
        if let Some(to_state) = &mut parents.to {
            self.change_parent(source, &mut objects.source, to)?;
            self.change_parent(target, target_state, self)?;
            to_state.metadata.times.modified();
            to.metadata_changed(to_state);
            to.mark_contents_dirty(to_state);
        }
        Ok(())
    }

    /// Returns the entry of the source under its new name, for which there is room.
    fn prepare_name(
        &self,
        parents: &mut LockedParents<'_>,
        names: Names<'_>,
        entry: Entry,
        leaves_whiteout: bool,
    ) -> Result<PreparedEntry> {
        let Names { from_slot, to, to_name, .. } = names;
        let units = to.check_new_name(parents.to(), to_name)?;
        // A whiteout keeps the short name of the source.
        let own = if parents.to.is_some() || leaves_whiteout { None } else { Some(from_slot) };
        let prepared = parents.to().contents()?.prepare_except(&units, entry, own)?;
        to.make_room(parents.to_mut(), &prepared)?;
        Ok(prepared)
    }

    /// Loads what changes if a directory gets another parent.
    fn prepare_parent_change(
        &self,
        parents: &LockedParents<'_>,
        objects: &mut LockedObjects<'_>,
        source: &Inode,
    ) -> Result<()> {
        if parents.to.is_some() && source.kind == FileKind::Directory {
            source.load(&mut objects.source)?;
        }
        Ok(())
    }

    /// Sets the entry `..` of a directory, whose contents were loaded; does nothing for other objects.
    fn change_parent(&self, moved: &Arc<Inode>, state: &mut State, parent: &Inode) -> Result<()> {
        if moved.kind != FileKind::Directory {
            return Ok(());
        }
        let width: FatWidth = self.volume.storage.geometry().width();
        let cluster = parent.cluster_as_parent();
        state.contents_mut()?.set_parent(|entry| entry.set_first_cluster(width, cluster));
        moved.mark_contents_dirty(state);
        Ok(())
    }
}

/// Makes an entry that of an object, whose state the caller holds locked, or one of its names if the object is in the store.
fn relink_or_note(object: &Inode, state: &mut State, is_link: bool, (directory, slot): (&Inode, u32)) {
    if is_link {
        object.note_name(directory, slot);
        object.metadata_changed(state);
    } else {
        object.relink(state, (directory, slot));
    }
}

/// Returns how the objects and the directories of a rename contain each other.
fn nesting(parents: &LockedParents<'_>, source: &Inode, target: Option<&Inode>) -> Nesting {
    Nesting {
        source_contains_target: parents.to_ancestors.contains(&source.number),
        target_contains_source: target.is_some_and(|target| parents.from_ancestors.contains(&target.number)),
    }
}

/// Checks whether the caller may rename these objects.
fn check_permissions(
    parents: &LockedParents<'_>,
    objects: &LockedObjects<'_>,
    (to, target): (&Inode, Option<&Inode>),
    caller: &Caller,
    mode: RenameMode,
) -> Result<()> {
    let has_entries = |state: &State| {
        target.is_some_and(|target| state.contents().is_ok_and(|contents| target.has_entries(contents)))
    };
    let target = objects
        .target
        .as_deref()
        .map(|target| Target { protection: &target.metadata.protection, has_entries: has_entries(target) });
    let rename = Rename {
        from: &parents.from.metadata.protection,
        to: parents.to.as_deref().map(|to| &to.metadata.protection),
        to_is_removed: parents.to().is_unlinked(to),
        to_is_full: false,
        source: &objects.source.metadata.protection,
        target,
    };
    renames::check(&rename, caller, mode)
}

/// Returns the numbers of a directory and all its ancestors. The rename lock keeps them unchanged.
fn ancestor_numbers(directory: &Inode) -> Vec<InodeNumber> {
    let mut numbers = vec![directory.number];
    let mut above = directory.parent_directory();
    while let Some(next) = above {
        numbers.push(next.number);
        above = next.parent_directory();
    }
    numbers
}
