//! Commit: a fork's changes are applied to the file system from which it was forked.
//!
//! First, directories move to where the fork has them; then new and changed objects reach their places, each copied completely
//! under a temporary name and renamed; then objects deleted in the fork are removed; last, directories get their times and
//! permissions. The fork itself keeps everything, so a commit can be repeated after any interruption.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use vnode::{
    Caller, Entry, Errno, FileSystemRef, Handle, NameBuf, RenameMode, Result, SetAttributes, SetTime, Timestamp,
    VnodeRef,
};

use super::changes::{Below, Changes, Object, shown};
use super::journal::{Copied, Journal};
use super::moved;
use super::outcome::{AtPath, CommitError, CommitOptions, Conflict, Deed, Failed, Step, is_directory};
use super::rights::Rights;
use crate::union::branch::branches::Member;
use crate::union::branch::lease::patiently;
use crate::union::branch::losses::Losses;
use crate::union::branch::verified::Sure;
use crate::union::branch::{whiteout, work};
use crate::union::copy_up::{copy_whole, keeping_times, replace_attributes};
use crate::union::node::Instance;
use crate::union::tree_path::TreePath;

/// Maximum length in bytes of a path recorded in the journal: for a tree that is deep enough, all paths together would not fit
/// on a disk.
const PATH_MAX: usize = 4096;

/// A commit in progress.
pub(crate) struct Commit<'a> {
    pub(crate) upper: Arc<Member>,
    pub(crate) lower: Arc<Member>,
    pub(crate) file_system: FileSystemRef,
    /// Root of the file system.
    pub(crate) root: VnodeRef,
    pub(crate) options: &'a CommitOptions,
    pub(crate) journal: Journal,
    /// Directories that the fork has too, with the permissions that they had when conflicts were searched for.
    pub(crate) seen: HashMap<Handle, Rights>,
    /// Directories in which others have created something, and when.
    pub(crate) others: HashMap<Handle, Timestamp>,
    /// Files of several names that this commit orphans: it removes some of the names, which changes the ctime.
    pub(crate) bereft: HashSet<Handle>,
    /// Copies of files of several names.
    linked: HashMap<Handle, VnodeRef>,
    /// Number of committed changes.
    pub(crate) done: u64,
    /// Number in the last temporary name.
    temporary: u64,
}

/// A directory of the fork and its counterpart in the file system.
struct Pair {
    /// Path from the root, by the names in branches.
    path: TreePath,
    upper: VnodeRef,
    base: VnodeRef,
    /// Whether everything in it that the fork does not have is removed.
    hides: bool,
    /// Names to be removed.
    gone: Vec<NameBuf>,
}

/// A directory and a name in it.
type Spot<'a> = (&'a VnodeRef, &'a NameBuf);

impl<'a> Commit<'a> {
    pub(crate) fn new(
        upper: Arc<Member>,
        lower: Arc<Member>,
        file_system: FileSystemRef,
        journal: Journal,
        options: &'a CommitOptions,
    ) -> Self {
        let now = Timestamp::now();
        Self {
            root: file_system.root(),
            upper,
            lower,
            file_system,
            options,
            journal,
            seen: HashMap::new(),
            others: HashMap::new(),
            bereft: HashSet::new(),
            linked: HashMap::new(),
            done: 0,
            // Interrupted commits may have left temporary names, which differ from these.
            temporary: now.seconds.unsigned_abs() << 30 | u64::from(now.nanoseconds),
        }
    }

    /// Finds others' changes.
    fn conflicts(&mut self) -> std::result::Result<Vec<Conflict>, CommitError> {
        moved::find_moved(&self.upper.root)
            .and_then(|moved| self.find_conflicts(&moved))
            .map_err(|failed| self.error(failed))
    }

    /// Runs the whole commit.
    pub(crate) fn run(&mut self) -> std::result::Result<(), CommitError> {
        let conflicts = self.conflicts()?;
        if !conflicts.is_empty() && !self.options.force {
            return Err(CommitError::Conflicts { conflicts, done: 0 });
        }
        self.make_changes().map_err(|failed| self.error(failed))
    }

    /// Attributes that the file system could not preserve, by path.
    pub(crate) fn lost(&self) -> Vec<(Vec<u8>, Losses)> {
        self.journal.lost().iter().map(|(path, losses)| (shown(path), *losses)).collect()
    }

    pub(crate) fn error(&self, Failed { path, errno, is_conflict }: Failed) -> CommitError {
        let done = self.done;
        if is_conflict {
            let deed = if errno == Errno::ESTALE { Deed::Removed } else { Deed::Changed };
            return CommitError::Conflicts { conflicts: vec![Conflict { path: shown(&path), deed }], done };
        }
        CommitError::Stopped { path: shown(&path), errno, done }
    }

    fn make_changes(&mut self) -> Step {
        // The journal must not be ahead of the file system's disk: any difference from it would count as others' change.
        self.file_system.sync().and_then(|()| self.journal.begin()).at(&TreePath::root())?;
        self.note_seen().at(&TreePath::root())?;
        // Once a change to the file system is on disk, so is the information needed to repeat the commit.
        self.upper.base.file_system.sync().at(&TreePath::root())?;
        let moved = moved::find_moved(&self.upper.root)?;
        self.refuse_stranded(&moved)?;
        self.bring_moved(moved)?;
        let pairs = self.put_all()?;
        for pair in &pairs {
            self.remove_gone(pair)?;
        }
        if self.journal.is_resumed {
            self.remove_staging()?;
        }
        self.finish_directories(&pairs)
    }

    /// Records the state that distinguishes others' changes from those of this commit.
    fn note_seen(&mut self) -> Result<()> {
        for (directory, rights) in &self.seen {
            if self.journal.rights_of(directory).is_none() {
                self.journal.note_rights(directory, Some(*rights))?;
            }
        }
        self.bereft.iter().try_for_each(|file| self.journal.note_bereft(file))
    }

    /// Returns whether nothing but the fork's own objects stays in a directory; `above`, whether that holds for its parent. A
    /// directory that was moved there has come with all of its contents.
    pub(crate) fn hides(&self, object: &Object, above: bool) -> bool {
        let has_come = object.below == Below::Same && self.journal.moved_to(&object.entry.vnode.handle()).is_some();
        object.below.hides(above) && !has_come
    }

    /// Puts every new or changed object into its place. Returns the directories of the fork, parents before children.
    fn put_all(&mut self) -> Step<Vec<Pair>> {
        let mut pairs = Vec::new();
        let (upper, base) = (self.upper.root.clone(), self.root.clone());
        let mut open = vec![Pair { path: TreePath::root(), upper, base, hides: false, gone: Vec::new() }];
        while let Some(mut pair) = open.pop() {
            if self.journal.is_resumed {
                self.remove_leftovers(&pair.base).at(&pair.path)?;
            }
            let Changes { objects, gone } = Changes::of(&pair.upper, &pair.path).at(&pair.path)?;
            let inherits = inherits(&pair.base).at(&pair.path)?;
            for object in &objects {
                if is_directory(&object.entry) {
                    let base = self.ensure_directory(&pair.base, &object.name, &object.path)?;
                    let (path, upper) = (object.path.clone(), object.entry.vnode.clone());
                    open.push(Pair { path, upper, base, hides: self.hides(object, pair.hides), gone: Vec::new() });
                } else {
                    self.put((&pair.base, &object.name), &object.entry, inherits, &object.path)?;
                }
            }
            pair.gone = gone;
            if pair.hides {
                let kept: HashSet<&NameBuf> = objects.iter().map(|object| &object.name).collect();
                let names = work::entries(&pair.base).at(&pair.path)?.into_iter().map(|(name, _)| name);
                pair.gone.extend(names.filter(|name| !kept.contains(name)));
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// Makes the file system have an object of the fork at this name.
    fn put(&mut self, spot: Spot<'_>, object: &Entry, inherits: bool, path: &TreePath) -> Step {
        let there = work::find(spot.0, spot.1.as_name()).at(path)?;
        let known = self.journal.copy_of(&object.vnode.handle(), &object.attributes);
        if let (Some(known), Some(there)) = (&known, &there)
            && there.vnode.handle() == known.handle
        {
            return Ok(());
        }
        if let Some(there) = there.as_ref().filter(|there| !is_directory(there)) {
            self.refuse_changed(there, path)?;
        }
        let temporary = self.temporary_name();
        let made = self.make((spot.0, &temporary), object, known, inherits, path);
        // A copy in its place that is missing from the journal would be taken for others' work.
        let made = made.and_then(|()| self.journal.sync()).at(path);
        // That may have taken long.
        let placed = made
            .and_then(|()| self.look_again(spot, there.as_ref(), path))
            .and_then(|there| self.replace((spot.0, &temporary), spot, there.as_ref()).at(path));
        if placed.is_err() {
            // If that fails too, it is removed when the commit is repeated.
            let _ = self.remove_temporary(spot.0, &temporary);
        }
        placed?;
        self.done += 1;
        Ok(())
    }

    /// Creates a copy of an object of the fork, or links the existing copy.
    fn make(
        &mut self,
        (directory, name): Spot<'_>,
        object: &Entry,
        known: Option<Copied>,
        inherits: bool,
        path: &TreePath,
    ) -> Result<()> {
        let server = Caller::server();
        if let Some(copy) = known.and_then(|known| self.find_copy(&known)) {
            match directory.link_surely(&server, &copy, name.as_name()) {
                // On another file system it becomes a file of its own.
                Err(Errno::EXDEV) => {}
                linked => return linked.map(drop),
            }
        }
        let instance = Instance::new(&self.upper, object.vnode.clone(), object.attributes.ino);
        let (copy, lost) = patiently(|| copy_whole(directory, name.as_name(), &instance, inherits))?;
        self.note_lost(path, lost)?;
        // A copy with a longer path is not found again, but copied again.
        let path = if path.length() <= PATH_MAX { path.slashed() } else { Vec::new() };
        let copied = Copied { handle: copy.handle(), path };
        self.journal.note_copy(&object.vnode.handle(), &object.attributes, copied)?;
        if object.attributes.nlink > 1 {
            self.linked.insert(copy.handle(), copy);
        }
        Ok(())
    }

    /// Records what the file system could not preserve; for a path that is too long, under the nearest ancestor with a shorter
    /// one.
    fn note_lost(&mut self, path: &TreePath, lost: Losses) -> Result<()> {
        if lost.is_empty() { Ok(()) } else { self.journal.note_lost(path.start(PATH_MAX).slashed(), lost) }
    }

    /// A copy that was made earlier, if it still has a name.
    fn find_copy(&self, known: &Copied) -> Option<VnodeRef> {
        let has_name = |copy: &VnodeRef| copy.getattr(&Caller::server()).is_ok_and(|attributes| attributes.nlink > 0);
        let in_use = self.linked.get(&known.handle).cloned();
        let found = in_use.or_else(|| self.file_system.resolve(&known.handle).ok()).filter(has_name);
        // Unprivileged servers cannot open files by handle.
        found.or_else(|| self.find_known(&known.path, &known.handle))
    }

    /// The object at a path, if it has that handle.
    pub(crate) fn find_known(&self, path: &[u8], handle: &Handle) -> Option<VnodeRef> {
        let place = moved::look_at(&self.root, path).ok()??;
        (place.entry.vnode.handle() == *handle).then_some(place.entry.vnode)
    }

    /// Looks again at the place that an object is about to take, and returns what is there: it must be as it was `before`.
    fn look_again(&self, spot: Spot<'_>, before: Option<&Entry>, path: &TreePath) -> Step<Option<Entry>> {
        let there = work::find(spot.0, spot.1.as_name()).at(path)?;
        if self.options.force {
            return Ok(there);
        }
        let handle = |entry: Option<&Entry>| entry.map(|entry| entry.vnode.handle());
        if handle(before) != handle(there.as_ref()) {
            let deed = if there.is_none() { Deed::Removed } else { Deed::Changed };
            return Err(Failed::conflict(path.slashed(), deed));
        }
        there.as_ref().map_or(Ok(()), |there| self.refuse_changed(there, path))?;
        Ok(there)
    }

    /// Renames an object that is not visible yet to its place, and replaces the object that was seen there, if any.
    pub(crate) fn replace(&mut self, from: Spot<'_>, to: Spot<'_>, there: Option<&Entry>) -> Result<()> {
        let server = Caller::server();
        let rename = |from: Spot<'_>, to: Spot<'_>, mode| {
            from.0.rename_surely(&server, from.1.as_name(), to.0, to.1.as_name(), mode)
        };
        let Some(there) = there else { return rename(from, to, RenameMode::NoReplace) };
        let comes_as_directory = from.0.lookup(&server, from.1.as_name())?.attributes.is_directory();
        if !comes_as_directory && !is_directory(there) {
            return rename(from, to, RenameMode::Replace);
        }
        if is_directory(there) {
            self.journal.note_aside(&there.vnode.handle())?;
        }
        match rename(from, to, RenameMode::Exchange) {
            Err(error) if whiteout::is_incapable(error) => {
                let aside = self.temporary_name();
                rename(to, (to.0, &aside), RenameMode::Replace)?;
                rename(from, to, RenameMode::Replace)?;
                self.remove_temporary(to.0, &aside)
            }
            exchanged => exchanged.and_then(|()| self.remove_temporary(from.0, from.1)),
        }
    }

    /// Removes the object at a temporary name of this commit: a directory with contents only if the journal lists it as one to
    /// be removed. Any other was put there by someone who may rename in the directory, but perhaps not remove what is in it.
    ///
    /// # Errors
    /// `ENOTEMPTY` for any other directory that is not empty.
    pub(crate) fn remove_temporary(&self, directory: &VnodeRef, name: &NameBuf) -> Result<()> {
        match work::find(directory, name.as_name())? {
            None => Ok(()),
            Some(there) if is_directory(&there) && !self.journal.is_aside(&there.vnode.handle()) => {
                directory.rmdir_surely(&Caller::server(), name.as_name())
            }
            Some(_) => work::remove_tree(directory, name.as_name()),
        }
    }

    /// Makes the file system have a directory at this name. A new one is inaccessible to others until it is complete.
    pub(crate) fn ensure_directory(&mut self, base: &VnodeRef, name: &NameBuf, path: &TreePath) -> Step<VnodeRef> {
        let there = work::find(base, name.as_name()).at(path)?;
        if let Some(there) = there.as_ref().filter(|there| is_directory(there)) {
            let is_known = self.journal.rights_of(&there.vnode.handle()).is_some();
            if is_known || self.options.force {
                return Ok(there.vnode.clone());
            }
            // It has been created since conflicts were searched for.
            return Err(Failed::conflict(path.slashed(), Deed::Changed));
        }
        let temporary = self.temporary_name();
        let made = self.make_directory((base, &temporary)).at(path)?;
        let placed = self
            .look_again((base, name), there.as_ref(), path)
            .and_then(|there| self.replace((base, &temporary), (base, name), there.as_ref()).at(path));
        if placed.is_err() {
            let _ = self.remove_temporary(base, &temporary);
        }
        placed?;
        self.done += 1;
        Ok(made)
    }

    /// Creates a directory at a temporary name. The journal knows it once it reaches its place.
    fn make_directory(&mut self, (directory, name): Spot<'_>) -> Result<VnodeRef> {
        let made = directory.mkdir(&Caller::server(), name.as_name(), 0o700)?.vnode;
        // Others who may rename there could already have replaced it.
        if !work::entries(&made)?.is_empty() {
            return Err(Errno::EBUSY);
        }
        self.journal.note_rights(&made.handle(), Some(Rights::of(&made)?))?;
        self.journal.sync()?;
        Ok(made)
    }

    /// Removes the objects deleted in the fork.
    fn remove_gone(&mut self, pair: &Pair) -> Step {
        let server = Caller::server();
        for name in &pair.gone {
            let path = pair.path.join(name.as_name());
            let Some(there) = work::find(&pair.base, name.as_name()).at(&path)? else { continue };
            self.refuse_changed(&there, &path)?;
            self.done += 1;
            if is_directory(&there) {
                let temporary = self.temporary_name();
                self.journal.note_aside(&there.vnode.handle()).at(&path)?;
                pair.base
                    .rename_surely(&server, name.as_name(), &pair.base, temporary.as_name(), RenameMode::NoReplace)
                    .and_then(|()| self.remove_temporary(&pair.base, &temporary))
                    .at(&path)?;
            } else {
                pair.base.unlink_surely(&server, name.as_name()).at(&path)?;
            }
        }
        Ok(())
    }

    /// Gives directories the owner, permissions, attributes and times of the fork's, children before parents.
    fn finish_directories(&mut self, pairs: &[Pair]) -> Step {
        let mut unfinished = Vec::new();
        for pair in pairs.iter().rev() {
            unfinished.extend(self.rights_before(pair)?.map(|present| (pair, present)));
        }
        self.journal.sync().at(&TreePath::root())?;
        let mut given = Vec::new();
        for (pair, present) in unfinished {
            given.push((pair, self.finish_directory(pair, present)?));
        }
        self.file_system.sync().at(&TreePath::root())?;
        for (pair, rights) in given {
            self.journal.note_rights(&pair.base.handle(), Some(rights)).at(&pair.path)?;
        }
        self.journal.sync().at(&TreePath::root())
    }

    /// The present permissions of a directory that is to be finished, recorded in the journal as about to change. If they
    /// differ from those that this commit knows, others have changed them.
    fn rights_before(&mut self, pair: &Pair) -> Step<Option<Rights>> {
        let (server, handle) = (Caller::server(), pair.base.handle());
        let (wanted, there) = (pair.upper.getattr(&server).at(&pair.path)?, pair.base.getattr(&server).at(&pair.path)?);
        let (rights, present) = (Rights::of(&pair.upper).at(&pair.path)?, Rights::of(&pair.base).at(&pair.path)?);
        if rights == present {
            return Ok(if wanted.mtime == there.mtime { None } else { Some(present) });
        }
        let known = self.journal.rights_of(&handle).flatten();
        if known.is_some_and(|known| known != present) && !self.options.force {
            return Err(Failed::conflict(pair.path.slashed(), Deed::Changed));
        }
        self.journal.note_rights(&handle, None).at(&pair.path)?;
        Ok(Some(present))
    }

    /// Finishes a directory that had these permissions; returns its new ones.
    fn finish_directory(&mut self, pair: &Pair, present: Rights) -> Step<Rights> {
        if Rights::of(&pair.base).at(&pair.path)? != present && !self.options.force {
            return Err(Failed::conflict(pair.path.slashed(), Deed::Changed));
        }
        let wanted = pair.upper.getattr(&Caller::server()).at(&pair.path)?;
        let lost = replace_attributes(&pair.upper, &pair.base).at(&pair.path)?;
        let given = Rights::of(&pair.base).at(&pair.path)?;
        self.note_lost(&pair.path, lost).at(&pair.path)?;
        if let Some(&later) = self.others.get(&pair.base.handle()).filter(|later| **later > wanted.mtime) {
            let later = SetAttributes { mtime: Some(SetTime::To(later)), ..SetAttributes::default() };
            pair.base.setattr(&Caller::server(), &later).at(&pair.path)?;
        }
        Ok(given)
    }

    /// Removes what an interrupted commit has left in a directory.
    fn remove_leftovers(&self, directory: &VnodeRef) -> Result<()> {
        let names = work::entries(directory)?.into_iter().map(|(name, _)| name);
        let mut left = names.filter(|name| self.journal.is_temporary(name));
        left.try_for_each(|name| {
            keeping_times(directory, || match self.remove_temporary(directory, &name) {
                // It does not belong to this commit.
                Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(()),
                removed => removed,
            })
        })
    }

    /// A temporary name that nothing has.
    fn temporary_name(&mut self) -> NameBuf {
        self.temporary += 1;
        self.journal.temporary_name(self.temporary)
    }
}

/// Returns whether objects created in a directory inherit access control lists from it.
fn inherits(directory: &VnodeRef) -> Result<bool> {
    match directory.getxattr(&Caller::server(), b"system.posix_acl_default") {
        Ok(_) => Ok(true),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}
