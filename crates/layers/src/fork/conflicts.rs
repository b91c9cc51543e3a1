//! Finds conflicts: others' changes in the file system, since the fork began, to objects that the fork has changed. This is
//! checked before anything is committed, and again before each object is replaced.
//!
//! A change is detected by the ctime. For an object that the commit itself has changed according to the journal, the mtime
//! counts; for directories, the permissions that the commit has found or set.

use std::collections::HashSet;

use vnode::{Attributes, Caller, Entry, Errno, Handle, NameBuf, Result, VnodeRef};

use super::changes::{Below, Changes, Object, shown};
use super::commit::Commit;
use super::moved::{self, Moved};
use super::outcome::{AtPath, Conflict, Deed, Failed, Step, is_directory};
use super::rights::Rights;
use crate::union::branch::work;
use crate::union::identity::{self, Identity};
use crate::union::tree_path::TreePath;

/// A directory of the fork and the one in the file system that it changes.
struct Pair {
    path: TreePath,
    upper: VnodeRef,
    base: Option<VnodeRef>,
    hides: bool,
}

/// Result of a search for conflicts.
#[derive(Default)]
pub(crate) struct Found {
    /// Conflicts, by the names in branches.
    conflicts: Vec<(Vec<u8>, Deed)>,
    /// Files with several names.
    pub(crate) linked: Vec<Handle>,
}

impl Found {
    pub(crate) fn add(&mut self, path: &TreePath, deed: Deed) {
        self.conflicts.push((path.slashed(), deed));
    }

    /// Fails at the first conflict.
    pub(crate) fn refuse(self) -> Step {
        self.conflicts.into_iter().next().map_or(Ok(()), |(path, deed)| Err(Failed::conflict(path, deed)))
    }
}

impl Commit<'_> {
    /// Finds all conflicts. Directories in which others have created something are remembered.
    pub(crate) fn find_conflicts(&mut self, moved: &[Moved]) -> Step<Vec<Conflict>> {
        let rests = self.rests(moved)?;
        let mut found = Found::default();
        let root = Pair {
            path: TreePath::root(),
            upper: self.upper.root.clone(),
            base: Some(self.root.clone()),
            hides: false,
        };
        // Iterative: a tree may be deeper than a thread's stack.
        let mut open = vec![root];
        while let Some(pair) = open.pop() {
            self.check_directory(&pair, &mut found).at(&pair.path)?;
            let Changes { objects, gone } = Changes::of(&pair.upper, &pair.path).at(&pair.path)?;
            for object in &objects {
                let there = self.there(&pair, &object.name).at(&object.path)?;
                if let Some(next) = self.check_object(object, there, pair.hides, &rests, &mut found)? {
                    open.push(next);
                }
            }
            let mut leaving = gone;
            if let (true, Some(base)) = (pair.hides, &pair.base) {
                let kept: HashSet<&NameBuf> = objects.iter().map(|object| &object.name).collect();
                let names = work::entries(base).at(&pair.path)?.into_iter().map(|(name, _)| name);
                leaving.extend(names.filter(|name| !kept.contains(name)));
            }
            for name in leaving.into_iter().filter(|name| !self.journal.is_temporary(name)) {
                let path = pair.path.join(name.as_name());
                if let Some(there) = self.there(&pair, &name).at(&path)? {
                    self.check_leaving(there, path, &rests, &mut found)?;
                }
            }
        }
        self.bereft.extend(found.linked);
        let conflicts = found.conflicts.into_iter().map(|(path, deed)| Conflict { path: shown(&path), deed });
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
        if let Some(made) = self.journal.time_of_made(&handle) {
            return there.attributes.mtime > made && self.has_new_data(&there.attributes);
        }
        let is_ours = self.journal.is_bereft(&handle);
        if is_ours { self.has_new_data(&there.attributes) } else { self.has_new_status(&there.attributes) }
    }

    /// Returns whether others have changed a directory; one that they have moved keeps its mtime, and so do the files in it.
    fn is_changed_directory(&self, handle: &Handle, attributes: &Attributes) -> bool {
        if self.seen.contains_key(handle) {
            // The fork has it elsewhere.
            return true;
        }
        if self.journal.rights_of(handle).is_some() {
            // An earlier commit has created objects in it.
            return false;
        }
        match self.journal.left(handle) {
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
    fn rests(&self, moved: &[Moved]) -> Step<HashSet<Handle>> {
        let mut rests = HashSet::new();
        for directory in moved {
            rests.extend(self.rest_of(directory).at(&directory.path)?.map(|rest| rest.handle()));
        }
        Ok(rests)
    }

    /// Present location of the lower part of a moved directory.
    fn rest_of(&self, moved: &Moved) -> Result<Option<VnodeRef>> {
        match self.journal.moved_to(&moved.upper.handle()) {
            Some(rest) => {
                let found = self.file_system.resolve(&rest).ok();
                let places = [moved.rest.clone(), moved.path.clone(), self.staged(moved)];
                Ok(found.or_else(|| places.iter().find_map(|place| self.find_known(place, &rest))))
            }
            None => Ok(moved::look_at(&self.root, &moved.rest)?.map(|place| place.entry.vnode)),
        }
    }

    fn there(&self, pair: &Pair, name: &NameBuf) -> Result<Option<Entry>> {
        pair.base.as_ref().map_or(Ok(None), |base| work::find(base, name.as_name()))
    }

    fn check_directory(&mut self, pair: &Pair, found: &mut Found) -> Result<()> {
        let Some(base) = &pair.base else { return Ok(()) };
        let (attributes, handle) = (base.getattr(&Caller::server())?, base.handle());
        if self.has_new_data(&attributes) && !self.journal.is_resumed {
            self.others.insert(handle, attributes.mtime);
        }
        let (wanted, present) = (Rights::of(&pair.upper)?, Rights::of(base)?);
        let others_have_set = match self.journal.rights_of(&handle) {
            Some(known) => known.is_some_and(|known| known != present),
            None => self.has_new_status(&attributes),
        };
        if others_have_set && wanted != present {
            found.add(&pair.path, Deed::Changed);
        }
        self.seen.insert(handle, present);
        Ok(())
    }

    /// Checks the object that is to take a place; returns the directories to check next.
    fn check_object(
        &self,
        object: &Object,
        there: Option<Entry>,
        above_hides: bool,
        rests: &HashSet<Handle>,
        found: &mut Found,
    ) -> Step<Option<Pair>> {
        let (path, upper) = (object.path.clone(), object.entry.vnode.clone());
        if let Below::Elsewhere(rest) = &object.below {
            let moved = Moved::of(object, rest);
            let base = self.rest_of(&moved).at(&path)?;
            let is_new = |base: &VnodeRef| {
                let made = base.getattr(&Caller::server()).ok().and_then(|attributes| attributes.btime);
                made.is_some_and(|made| made > self.options.since) && !self.journal.is_resumed
            };
            if base.as_ref().is_none_or(is_new) {
                found.add(&path, Deed::Removed);
            }
            if let Some(there) =
                there.filter(|there| base.as_ref().is_none_or(|base| base.handle() != there.vnode.handle()))
            {
                self.check_leaving(there, path.clone(), rests, found)?;
            }
            return Ok(Some(Pair { path, upper, base, hides: false }));
        }
        if is_directory(&object.entry) {
            let there = there.filter(|there| !rests.contains(&there.vnode.handle()));
            let base = match there {
                Some(there) if is_directory(&there) => Some(there.vnode),
                Some(there) => {
                    self.check_leaving(there, path.clone(), rests, found)?;
                    None
                }
                None => None,
            };
            return Ok(Some(Pair { path, upper, base, hides: self.hides(object, above_hides) }));
        }
        match there {
            Some(there) => self.check_leaving(there, path, rests, found)?,
            None if self.is_removed(&object.entry).at(&path)? => {
                found.add(&path, Deed::Removed);
            }
            None => {}
        }
        Ok(None)
    }

    /// Returns whether a copy in the fork is of an object that others have removed or moved away.
    fn is_removed(&self, copy: &Entry) -> Result<bool> {
        if self.journal.is_resumed || !self.file_system.properties().persistent_handles {
            return Ok(false);
        }
        let Some((identity, _)) = Identity::brought(&copy.vnode)? else { return Ok(false) };
        let Some((_, original)) = identity::parts(&identity.handle) else { return Ok(false) };
        if identity.branch != self.lower.base.known.identifier {
            return Ok(false);
        }
        let found = self.file_system.resolve(&original).and_then(|original| original.getattr(&Caller::server()));
        match found.map_err(|error| self.lower.judged(error)) {
            Ok(attributes) => Ok(attributes.nlink == 0 || attributes.ctime > self.options.since),
            Err(Errno::ESTALE | Errno::ENOENT) => Ok(true),
            Err(error @ Errno::EIO) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
