//! Finds conflicts: others' changes in the file system, since the fork began, to objects that the fork has changed. This is
//! checked before anything is committed, and again before each object is replaced.
//!
//! A change is detected by the ctime. For an object that the commit itself has changed according to the journal, the mtime
//! counts; for directories, the permissions that the commit has found or set.

use std::collections::HashSet;

use vnode::{Attributes, Caller, Entry, Errno, Handle, NameBuf, Result, VnodeRef};

use super::changes::{ChangedObject, DirectoryChanges, LowerPart, visible_path};
use super::commit::Commit;
use super::moved::{self, MovedDirectory};
use super::outcome::{AtPath, CommitFailure, CommitStep, Conflict, ForeignChange, is_directory};
use super::permissions::DirectoryPermissions;
use crate::union::branch::identity::{self, Identity};
use crate::union::branch::objects;
use crate::union::tree_path::TreePath;

/// A directory of the fork and the one in the file system that it changes.
struct ComparedDirectory {
    path: TreePath,
    upper: VnodeRef,
    base: Option<VnodeRef>,
    hides: bool,
}

/// Result of a search for conflicts.
#[derive(Default)]
pub(crate) struct ConflictSearch {
    /// Conflicts, by the names in branches.
    conflicts: Vec<(Vec<u8>, ForeignChange)>,
    /// Files with several names.
    pub(crate) linked: Vec<Handle>,
}

impl ConflictSearch {
    pub(crate) fn add(&mut self, path: &TreePath, change: ForeignChange) {
        self.conflicts.push((path.slashed(), change));
    }

    /// Fails at the first conflict.
    pub(crate) fn refuse(self) -> CommitStep {
        self.conflicts.into_iter().next().map_or(Ok(()), |(path, change)| Err(CommitFailure::conflict(path, change)))
    }
}

impl Commit<'_> {
    /// Finds all conflicts. Directories in which others have created something are remembered.
    pub(crate) fn find_conflicts(&mut self, moved: &[MovedDirectory]) -> CommitStep<Vec<Conflict>> {
        let lower_parts = self.lower_parts(moved)?;
        let mut found = ConflictSearch::default();
        let root = ComparedDirectory {
            path: TreePath::root(),
            upper: self.upper.root.clone(),
            base: Some(self.root.clone()),
            hides: false,
        };
        // Iterative: a tree may be deeper than a thread's stack.
        let mut open = vec![root];
        while let Some(pair) = open.pop() {
            self.check_directory(&pair, &mut found).at(&pair.path)?;
            let DirectoryChanges { objects, gone } = DirectoryChanges::of(&pair.upper, &pair.path).at(&pair.path)?;
            for object in &objects {
                let there = self.there(&pair, &object.name).at(&object.path)?;
                if let Some(next) = self.check_object(object, there, pair.hides, &lower_parts, &mut found)? {
                    open.push(next);
                }
            }
            let mut removed = gone;
            if let (true, Some(base)) = (pair.hides, &pair.base) {
                let kept: HashSet<&NameBuf> = objects.iter().map(|object| &object.name).collect();
                let names = objects::entries(base).at(&pair.path)?.into_iter().map(|(name, _)| name);
                removed.extend(names.filter(|name| !kept.contains(name)));
            }
            for name in removed.into_iter().filter(|name| !self.journal.is_temporary(name)) {
                let path = pair.path.join(name.as_name());
                if let Some(there) = self.there(&pair, &name).at(&path)? {
                    self.check_removed(there, path, &lower_parts, &mut found)?;
                }
            }
        }
        self.orphaned.extend(found.linked);
        let conflicts =
            found.conflicts.into_iter().map(|(path, change)| Conflict { path: visible_path(&path), change });
        let mut conflicts: Vec<_> = conflicts.collect();
        conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        conflicts.dedup();
        Ok(conflicts)
    }

    /// Returns whether others have changed an object that is about to be replaced or removed.
    pub(crate) fn is_changed(&self, there: &Entry) -> bool {
        let handle = there.vnode.handle();
        if is_directory(there) {
            return self.is_changed_directory(&handle, &there.attributes);
        }
        if let Some(made) = self.journal.mtime_of_copy(&handle) {
            return there.attributes.mtime > made && self.has_new_data(&there.attributes);
        }
        let is_ours = self.journal.is_orphaned(&handle);
        if is_ours { self.has_new_data(&there.attributes) } else { self.has_new_status(&there.attributes) }
    }

    /// Returns whether others have changed a directory; one that they have moved keeps its mtime, and so do the files in it.
    fn is_changed_directory(&self, handle: &Handle, attributes: &Attributes) -> bool {
        if self.permissions_seen.contains_key(handle) {
            // The fork has it elsewhere.
            return true;
        }
        if self.journal.permissions_of(handle).is_some() {
            // An earlier commit has created objects in it.
            return false;
        }
        match self.journal.source_mtime(handle) {
            Some(time) => time.is_some_and(|time| attributes.mtime > time),
            None => self.has_new_status(attributes),
        }
    }

    fn has_new_status(&self, attributes: &Attributes) -> bool {
        attributes.ctime > self.options.since
    }

    /// Returns whether the data are new: an mtime can be set to any value, but a change of data changes the ctime too.
    fn has_new_data(&self, attributes: &Attributes) -> bool {
        attributes.mtime > self.options.since && attributes.mtime <= attributes.ctime
    }

    /// Directories of the file system that move, by their handles.
    fn lower_parts(&self, moved: &[MovedDirectory]) -> CommitStep<HashSet<Handle>> {
        let mut lower_parts = HashSet::new();
        for directory in moved {
            lower_parts.extend(self.lower_part_of(directory).at(&directory.path)?.map(|rest| rest.handle()));
        }
        Ok(lower_parts)
    }

    /// Present location of the lower part of a moved directory.
    fn lower_part_of(&self, moved: &MovedDirectory) -> Result<Option<VnodeRef>> {
        match self.journal.moved_to(&moved.upper.handle()) {
            Some(rest) => {
                let found = self.file_system.resolve(&Caller::server(), &rest).ok();
                let paths = [moved.former_path.clone(), moved.path.clone(), self.staged(moved)];
                Ok(found.or_else(|| paths.iter().find_map(|located| self.find_with_handle(located, &rest))))
            }
            None => Ok(moved::locate(&self.root, &moved.former_path)?.map(|located| located.entry.vnode)),
        }
    }

    fn there(&self, pair: &ComparedDirectory, name: &NameBuf) -> Result<Option<Entry>> {
        pair.base.as_ref().map_or(Ok(None), |base| objects::find(base, name.as_name()))
    }

    fn check_directory(&mut self, pair: &ComparedDirectory, found: &mut ConflictSearch) -> Result<()> {
        let Some(base) = &pair.base else { return Ok(()) };
        let (attributes, handle) = (base.getattr(&Caller::server())?, base.handle());
        if self.has_new_data(&attributes) && !self.journal.is_resumed {
            self.foreign_mtimes.insert(handle, attributes.mtime);
        }
        let (wanted, present) = (DirectoryPermissions::of(&pair.upper)?, DirectoryPermissions::of(base)?);
        let others_have_set = match self.journal.permissions_of(&handle) {
            Some(known) => known.is_some_and(|known| known != present),
            None => self.has_new_status(&attributes),
        };
        if others_have_set && wanted != present {
            found.add(&pair.path, ForeignChange::Changed);
        }
        self.permissions_seen.insert(handle, present);
        Ok(())
    }

    /// Checks the object that is to take a place; returns the directories to check next.
    fn check_object(
        &self,
        object: &ChangedObject,
        there: Option<Entry>,
        above_hides: bool,
        lower_parts: &HashSet<Handle>,
        found: &mut ConflictSearch,
    ) -> CommitStep<Option<ComparedDirectory>> {
        let (path, upper) = (object.path.clone(), object.entry.vnode.clone());
        if let LowerPart::Elsewhere(rest) = &object.lower_part {
            let moved = MovedDirectory::of(object, rest);
            let base = self.lower_part_of(&moved).at(&path)?;
            let is_new = |base: &VnodeRef| {
                let made = base.getattr(&Caller::server()).ok().and_then(|attributes| attributes.btime);
                made.is_some_and(|made| made > self.options.since) && !self.journal.is_resumed
            };
            if base.as_ref().is_none_or(is_new) {
                found.add(&path, ForeignChange::Removed);
            }
            if let Some(there) =
                there.filter(|there| base.as_ref().is_none_or(|base| base.handle() != there.vnode.handle()))
            {
                self.check_removed(there, path.clone(), lower_parts, found)?;
            }
            return Ok(Some(ComparedDirectory { path, upper, base, hides: false }));
        }
        if is_directory(&object.entry) {
            let there = there.filter(|there| !lower_parts.contains(&there.vnode.handle()));
            let base = match there {
                Some(there) if is_directory(&there) => Some(there.vnode),
                Some(there) => {
                    self.check_removed(there, path.clone(), lower_parts, found)?;
                    None
                }
                None => None,
            };
            return Ok(Some(ComparedDirectory { path, upper, base, hides: self.hides(object, above_hides) }));
        }
        match there {
            Some(there) => self.check_removed(there, path, lower_parts, found)?,
            None if self.is_removed(&object.entry).at(&path)? => {
                found.add(&path, ForeignChange::Removed);
            }
            None => {}
        }
        Ok(None)
    }

    /// Returns whether a copy in the fork is of an object that others have removed or moved away.
    fn is_removed(&self, copy: &Entry) -> Result<bool> {
        if self.journal.is_resumed || !self.file_system.properties().promises.persistent_handles {
            return Ok(false);
        }
        let Some((identity, _)) = Identity::stored_origin(&copy.vnode)? else { return Ok(false) };
        let Some((_, original)) = identity::split_handle(&identity.handle) else { return Ok(false) };
        if identity.branch != self.lower.base.numbers.identifier {
            return Ok(false);
        }
        let found = self
            .file_system
            .resolve(&Caller::server(), &original)
            .and_then(|original| original.getattr(&Caller::server()));
        match found.map_err(|error| self.lower.reported_error(error)) {
            Ok(attributes) => Ok(attributes.nlink == 0 || attributes.ctime > self.options.since),
            Err(Errno::ESTALE | Errno::ENOENT) => Ok(true),
            Err(error @ Errno::EIO) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
