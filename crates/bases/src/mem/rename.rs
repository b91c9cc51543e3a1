//! Renames: moves, replacements, exchanges and whiteouts, within and across directories.

use std::sync::{Arc, MutexGuard, RwLockWriteGuard};

use vnode::{Caller, Errno, FileKind, InodeNumber, Name, RenameMode, Result};

use crate::unix::renames::{self, Nesting, Rename, Target};

use super::inode::{Inode, State};
use super::remove::search;

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
    fn lock((from, name): (&'a Inode, Name<'_>), (to, to_name): (&'a Inode, Name<'_>), mode: RenameMode) -> Self {
        if from.number == to.number {
            return Self { from: from.write(), to: None, from_ancestors: vec![], to_ancestors: vec![], _renames: None };
        }
        let renames = from.volume.lock_renames();
        // From here on no directory moves: one without directories in it has neither of these in it, and the way up from both, which
        // may be long, need not be taken.
        let may_nest = mode == RenameMode::Exchange || from.has_subdirectories(name) || to.has_subdirectories(to_name);
        let (from_ancestors, to_ancestors) = match may_nest {
            true => (ancestor_numbers(from), ancestor_numbers(to)),
            false => (vec![from.number], vec![to.number]),
        };
        let (from, to) = lock_both(from, to);
        Self { from, to: Some(to), from_ancestors, to_ancestors, _renames: Some(renames) }
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
    source: RwLockWriteGuard<'a, State>,
    target: Option<RwLockWriteGuard<'a, State>>,
}

impl<'a> LockedObjects<'a> {
    fn lock(source: &'a Inode, target: Option<&'a Inode>) -> Self {
        let order = |inode: &Inode| (inode.kind != FileKind::Directory, inode.number);
        match target {
            None => Self { source: source.write(), target: None },
            Some(target) if order(source) < order(target) => {
                let source = source.write();
                Self { source, target: Some(target.write()) }
            }
            Some(target) => {
                let target = target.write();
                Self { source: source.write(), target: Some(target) }
            }
        }
    }
}

impl Inode {
    /// Renames `name` in this directory to `to_name` in the directory `to`.
    pub(crate) fn move_entry(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &Inode,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        // Declared first, so that an inode whose last reference this is is dropped after the locks are released.
        let source: Arc<Inode>;
        let target: Option<Arc<Inode>>;
        let mut parents = LockedParents::lock((self, name), (to, to_name), mode);
        parents.to().directory()?;
        let sources = search(&parents.from, caller)?;
        let targets = search(parents.to(), caller)?;
        source = sources.get(name).ok_or(Errno::ENOENT)?.inode.clone();
        target = targets.get(to_name).map(|slot| slot.inode.clone());
        renames::check_names(target.is_some(), nesting(&parents, &source, target.as_deref()), mode)?;
        if target.as_ref().is_some_and(|target| Arc::ptr_eq(target, &source)) {
            return Ok(());
        }
        let mut objects = LockedObjects::lock(&source, target.as_deref());
        check_permissions(&parents, &objects, caller, mode)?;
        match mode {
            RenameMode::Exchange => {
                self.exchange(&mut parents, &mut objects, (name, &source), (to, to_name, target.as_ref()))
            }
            _ => {
                let whiteout = match mode {
                    RenameMode::Whiteout | RenameMode::WhiteoutNoReplace => {
                        Some(self.new_whiteout(&parents.from, caller)?)
                    }
                    _ => None,
                };
                self.replace(&mut parents, &mut objects, (name, &source, whiteout), (to, to_name))
            }
        }
    }

    /// Returns whether the object of a name in this directory is a directory with others in it.
    fn has_subdirectories(&self, name: Name<'_>) -> bool {
        let found = self.read().directory().ok().and_then(|directory| Some(directory.get(name)?.inode.clone()));
        found.is_some_and(|inode| inode.kind == FileKind::Directory && inode.read().metadata.nlink > 2)
    }

    /// Moves the source over the target, or to a new name, and leaves the whiteout, if any.
    fn replace(
        &self,
        parents: &mut LockedParents<'_>,
        objects: &mut LockedObjects<'_>,
        (name, source, whiteout): (Name<'_>, &Arc<Inode>, Option<Arc<Inode>>),
        (to, to_name): (&Inode, Name<'_>),
    ) -> Result<()> {
        parents.to_mut().directory_mut()?.reserve()?;
        objects.source.reserve_link()?;
        let is_directory = source.kind == FileKind::Directory;
        let slot = match whiteout {
            Some(whiteout) => {
                let slot = parents.from.directory_mut()?.replace(name, whiteout.clone()).ok_or(Errno::ENOENT)?;
                let mut state = whiteout.write();
                state.add_link(self, slot.cookie);
                state.metadata.nlink = 1;
                slot
            }
            None => parents.from.directory_mut()?.remove(name).ok_or(Errno::ENOENT)?,
        };
        objects.source.remove_link(self, slot.cookie);
        let entries = parents.to_mut().directory_mut()?;
        let (cookie, replaces_directory) = match (entries.replace(to_name, source.clone()), &mut objects.target) {
            (Some(old), Some(target)) => (old.cookie, target.drop_link(to, old.cookie)),
            _ => (entries.insert(to_name, source.clone()), false),
        };
        objects.source.add_link(to, cookie);
        if is_directory {
            parents.from.metadata.nlink -= 1;
            parents.to_mut().metadata.nlink += 1;
        }
        if replaces_directory {
            parents.to_mut().metadata.nlink -= 1;
        }
        update_times(parents, objects);
        Ok(())
    }

    /// Exchanges the objects of both names.
    fn exchange(
        &self,
        parents: &mut LockedParents<'_>,
        objects: &mut LockedObjects<'_>,
        (name, source): (Name<'_>, &Arc<Inode>),
        (to, to_name, target): (&Inode, Name<'_>, Option<&Arc<Inode>>),
    ) -> Result<()> {
        let (Some(target), Some(target_state)) = (target, &mut objects.target) else { return Err(Errno::ENOENT) };
        let from_slot = parents.from.directory_mut()?.replace(name, target.clone()).ok_or(Errno::ENOENT)?;
        let to_slot = parents.to_mut().directory_mut()?.replace(to_name, source.clone()).ok_or(Errno::ENOENT)?;
        objects.source.remove_link(self, from_slot.cookie);
        objects.source.add_link(to, to_slot.cookie);
        target_state.remove_link(to, to_slot.cookie);
        target_state.add_link(self, from_slot.cookie);
        target_state.metadata.times.changed();
        match (source.kind == FileKind::Directory, target.kind == FileKind::Directory) {
            (true, false) => {
                parents.from.metadata.nlink -= 1;
                parents.to_mut().metadata.nlink += 1;
            }
            (false, true) => {
                parents.to_mut().metadata.nlink -= 1;
                parents.from.metadata.nlink += 1;
            }
            _ => {}
        }
        update_times(parents, objects);
        Ok(())
    }
}

/// Updates the times that a rename changes, except the target's.
fn update_times(parents: &mut LockedParents<'_>, objects: &mut LockedObjects<'_>) {
    parents.from.metadata.times.modified();
    if let Some(to) = &mut parents.to {
        to.metadata.times.modified();
    }
    objects.source.metadata.times.changed();
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
    caller: &Caller,
    mode: RenameMode,
) -> Result<()> {
    let target = objects.target.as_deref().map(|target| Target {
        protection: &target.metadata.protection,
        has_entries: target.directory().is_ok_and(|directory| directory.len() > 0),
    });
    let rename = Rename {
        from: &parents.from.metadata.protection,
        to: parents.to.as_deref().map(|to| &to.metadata.protection),
        to_is_removed: parents.to().directory()?.is_removed(),
        to_is_full: parents.to().metadata.nlink == u32::MAX,
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
