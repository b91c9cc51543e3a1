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

use super::changes::{ChangedObject, DirectoryChanges, LowerPart, visible_path};
use super::journal::{Journal, JournaledCopy};
use super::moved;
use super::outcome::{
    AtPath, CommitError, CommitFailure, CommitOptions, CommitStep, Conflict, ForeignChange, is_directory,
};
use super::permissions::DirectoryPermissions;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::lease::retry_while_leased;
use crate::union::branch::losses::Losses;
use crate::union::branch::objects::{self, keeping_times};
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout;
use crate::union::copy_up::{copy_object, replace_attributes};
use crate::union::state::instance::Instance;
use crate::union::tree_path::TreePath;

/// Maximum length in bytes of a path recorded in the journal: for a tree that is deep enough, all paths together would not fit
/// on a disk.
const PATH_MAX: usize = 4096;

/// A commit in progress.
pub(crate) struct Commit<'a> {
    pub(crate) upper: Arc<BranchMember>,
    pub(crate) lower: Arc<BranchMember>,
    pub(crate) file_system: FileSystemRef,
    /// Root of the file system.
    pub(crate) root: VnodeRef,
    pub(crate) options: &'a CommitOptions,
    pub(crate) journal: Journal,
    /// Directories that the fork has too, with the permissions that they had when conflicts were searched for.
    pub(crate) permissions_seen: HashMap<Handle, DirectoryPermissions>,
    /// Directories in which others have created something, and when.
    pub(crate) foreign_mtimes: HashMap<Handle, Timestamp>,
    /// Files of several names that this commit orphans: it removes some of the names, which changes the ctime.
    pub(crate) orphaned: HashSet<Handle>,
    /// Copies of files of several names.
    linked: HashMap<Handle, VnodeRef>,
    /// Number of committed changes.
    pub(crate) done: u64,
    /// Number in the last temporary name.
    temporary: u64,
}

/// A directory of the fork and its counterpart in the file system.
struct CommittedDirectory {
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
type NamedEntry<'a> = (&'a VnodeRef, &'a NameBuf);

impl<'a> Commit<'a> {
    pub(crate) fn new(
        upper: Arc<BranchMember>,
        lower: Arc<BranchMember>,
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
            permissions_seen: HashMap::new(),
            foreign_mtimes: HashMap::new(),
            orphaned: HashSet::new(),
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
        self.journal.lost().iter().map(|(path, losses)| (visible_path(path), *losses)).collect()
    }

    pub(crate) fn error(&self, CommitFailure { path, errno, is_conflict }: CommitFailure) -> CommitError {
        let done = self.done;
        if is_conflict {
            let change = if errno == Errno::ESTALE { ForeignChange::Removed } else { ForeignChange::Changed };
            return CommitError::Conflicts { conflicts: vec![Conflict { path: visible_path(&path), change }], done };
        }
        if self.journal.failure == Some(errno) {
            return CommitError::Records { errno, done };
        }
        CommitError::Stopped { path: visible_path(&path), errno, done }
    }

    fn make_changes(&mut self) -> CommitStep {
        // The journal must not be ahead of the file system's disk: any difference from it would count as others' change.
        self.file_system.sync().and_then(|()| self.journal.begin()).at(&TreePath::root())?;
        self.record_permissions_seen().at(&TreePath::root())?;
        // Once a change to the file system is on disk, so is the information needed to repeat the commit.
        self.upper.base.file_system.sync().at(&TreePath::root())?;
        let moved = moved::find_moved(&self.upper.root)?;
        self.refuse_stranded(&moved)?;
        self.move_directories(moved)?;
        let pairs = self.put_objects()?;
        for pair in &pairs {
            self.remove_gone(pair)?;
        }
        if self.journal.is_resumed {
            self.remove_staging()?;
        }
        self.finish_directories(&pairs)
    }

    /// Records the state that distinguishes others' changes from those of this commit.
    fn record_permissions_seen(&mut self) -> Result<()> {
        for (directory, permissions) in &self.permissions_seen {
            if self.journal.permissions_of(directory).is_none() {
                self.journal.record_permissions(directory, Some(*permissions))?;
            }
        }
        self.orphaned.iter().try_for_each(|file| self.journal.record_orphaned(file))
    }

    /// Returns whether nothing but the fork's own objects stays in a directory; `above`, whether that holds for its parent. A
    /// directory that was moved there has come with all of its contents.
    pub(crate) fn hides(&self, object: &ChangedObject, above: bool) -> bool {
        let has_arrived =
            object.lower_part == LowerPart::Same && self.journal.moved_to(&object.entry.vnode.handle()).is_some();
        object.lower_part.hides(above) && !has_arrived
    }

    /// Puts every new or changed object into its place. Returns the directories of the fork, parents before children.
    fn put_objects(&mut self) -> CommitStep<Vec<CommittedDirectory>> {
        let mut pairs = Vec::new();
        let (upper, base) = (self.upper.root.clone(), self.root.clone());
        let mut open = vec![CommittedDirectory { path: TreePath::root(), upper, base, hides: false, gone: Vec::new() }];
        while let Some(mut pair) = open.pop() {
            if self.journal.is_resumed {
                self.remove_leftovers(&pair.base).at(&pair.path)?;
            }
            let DirectoryChanges { objects, gone } = DirectoryChanges::of(&pair.upper, &pair.path).at(&pair.path)?;
            let inherits = inherits(&pair.base).at(&pair.path)?;
            for object in &objects {
                if is_directory(&object.entry) {
                    let base = self.ensure_directory(&pair.base, &object.name, &object.path)?;
                    let (path, upper) = (object.path.clone(), object.entry.vnode.clone());
                    open.push(CommittedDirectory {
                        path,
                        upper,
                        base,
                        hides: self.hides(object, pair.hides),
                        gone: Vec::new(),
                    });
                } else {
                    self.put_object((&pair.base, &object.name), &object.entry, inherits, &object.path)?;
                }
            }
            pair.gone = gone;
            if pair.hides {
                let kept: HashSet<&NameBuf> = objects.iter().map(|object| &object.name).collect();
                let names = objects::entries(&pair.base).at(&pair.path)?.into_iter().map(|(name, _)| name);
                pair.gone.extend(names.filter(|name| !kept.contains(name)));
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// Makes the file system have an object of the fork at this name.
    fn put_object(&mut self, target: NamedEntry<'_>, object: &Entry, inherits: bool, path: &TreePath) -> CommitStep {
        let there = objects::find(target.0, target.1.as_name()).at(path)?;
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
        let made = self.make_copy((target.0, &temporary), object, known, inherits, path);
        // A copy in its place that is missing from the journal would be taken for others' work.
        let made = made.and_then(|()| self.journal.sync()).at(path);
        // That may have taken long.
        let placed = made
            .and_then(|()| self.recheck(target, there.as_ref(), path))
            .and_then(|there| self.replace((target.0, &temporary), target, there.as_ref()).at(path));
        if placed.is_err() {
            // If that fails too, it is removed when the commit is repeated.
            let _ = self.remove_temporary(target.0, &temporary);
        }
        placed?;
        self.done += 1;
        Ok(())
    }

    /// Creates a copy of an object of the fork, or links the existing copy.
    fn make_copy(
        &mut self,
        (directory, name): NamedEntry<'_>,
        object: &Entry,
        known: Option<JournaledCopy>,
        inherits: bool,
        path: &TreePath,
    ) -> Result<()> {
        let server = Caller::server();
        if let Some(copy) = known.and_then(|known| self.find_copy(&known)) {
            match directory.link_verified(&server, &copy, name.as_name()) {
                // On another file system it becomes a file of its own.
                Err(Errno::EXDEV) => {}
                linked => return linked.map(drop),
            }
        }
        let instance = Instance::new(&self.upper, object.vnode.clone(), object.attributes.ino);
        let (copy, lost) = retry_while_leased(|| copy_object(directory, name.as_name(), &instance, inherits))?;
        self.record_lost(path, lost)?;
        // A copy with a longer path is not found again, but copied again.
        let path = if path.length() <= PATH_MAX { path.slashed() } else { Vec::new() };
        let copied = JournaledCopy { handle: copy.handle(), path };
        self.journal.record_copy(&object.vnode.handle(), &object.attributes, copied)?;
        if object.attributes.nlink > 1 {
            self.linked.insert(copy.handle(), copy);
        }
        Ok(())
    }

    /// Records what the file system could not preserve; for a path that is too long, under the nearest ancestor with a shorter
    /// one.
    fn record_lost(&mut self, path: &TreePath, lost: Losses) -> Result<()> {
        if lost.is_empty() { Ok(()) } else { self.journal.record_lost(path.start(PATH_MAX).slashed(), lost) }
    }

    /// A copy that was made earlier, if it still has a name.
    fn find_copy(&self, known: &JournaledCopy) -> Option<VnodeRef> {
        let has_name = |copy: &VnodeRef| copy.getattr(&Caller::server()).is_ok_and(|attributes| attributes.nlink > 0);
        let in_use = self.linked.get(&known.handle).cloned();
        let found = in_use.or_else(|| self.file_system.resolve(&Caller::server(), &known.handle).ok()).filter(has_name);
        // Unprivileged servers cannot open files by handle.
        found.or_else(|| self.find_with_handle(&known.path, &known.handle))
    }

    /// The object at a path, if it has that handle.
    pub(crate) fn find_with_handle(&self, path: &[u8], handle: &Handle) -> Option<VnodeRef> {
        let located = moved::locate(&self.root, path).ok()??;
        (located.entry.vnode.handle() == *handle).then_some(located.entry.vnode)
    }

    /// Looks again at the place that an object is about to take, and returns what is there: it must be as it was `before`.
    fn recheck(&self, target: NamedEntry<'_>, before: Option<&Entry>, path: &TreePath) -> CommitStep<Option<Entry>> {
        let there = objects::find(target.0, target.1.as_name()).at(path)?;
        if self.options.force {
            return Ok(there);
        }
        let handle = |entry: Option<&Entry>| entry.map(|entry| entry.vnode.handle());
        if handle(before) != handle(there.as_ref()) {
            let change = if there.is_none() { ForeignChange::Removed } else { ForeignChange::Changed };
            return Err(CommitFailure::conflict(path.slashed(), change));
        }
        there.as_ref().map_or(Ok(()), |there| self.refuse_changed(there, path))?;
        Ok(there)
    }

    /// Renames an object that is not visible yet to its place, and replaces the object that was seen there, if any.
    pub(crate) fn replace(&mut self, from: NamedEntry<'_>, to: NamedEntry<'_>, there: Option<&Entry>) -> Result<()> {
        let server = Caller::server();
        let rename = |from: NamedEntry<'_>, to: NamedEntry<'_>, mode| {
            from.0.rename_verified(&server, from.1.as_name(), to.0, to.1.as_name(), mode)
        };
        let Some(there) = there else { return rename(from, to, RenameMode::NoReplace) };
        let comes_as_directory = from.0.lookup(&server, from.1.as_name())?.attributes.is_directory();
        if !comes_as_directory && !is_directory(there) {
            return rename(from, to, RenameMode::Replace);
        }
        if is_directory(there) {
            self.journal.record_aside(&there.vnode.handle())?;
        }
        match rename(from, to, RenameMode::Exchange) {
            Err(error) if whiteout::is_unsupported(error) => {
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
        match objects::find(directory, name.as_name())? {
            None => Ok(()),
            Some(there) if is_directory(&there) && !self.journal.is_aside(&there.vnode.handle()) => {
                directory.rmdir_verified(&Caller::server(), name.as_name())
            }
            Some(_) => objects::remove_tree(directory, name.as_name()),
        }
    }

    /// Makes the file system have a directory at this name. A new one is inaccessible to others until it is complete.
    pub(crate) fn ensure_directory(
        &mut self,
        base: &VnodeRef,
        name: &NameBuf,
        path: &TreePath,
    ) -> CommitStep<VnodeRef> {
        let there = objects::find(base, name.as_name()).at(path)?;
        if let Some(there) = there.as_ref().filter(|there| is_directory(there)) {
            let is_known = self.journal.permissions_of(&there.vnode.handle()).is_some();
            if is_known || self.options.force {
                return Ok(there.vnode.clone());
            }
            // It has been created since conflicts were searched for.
            return Err(CommitFailure::conflict(path.slashed(), ForeignChange::Changed));
        }
        let temporary = self.temporary_name();
        let made = self.make_directory((base, &temporary)).at(path)?;
        let placed = self
            .recheck((base, name), there.as_ref(), path)
            .and_then(|there| self.replace((base, &temporary), (base, name), there.as_ref()).at(path));
        if placed.is_err() {
            let _ = self.remove_temporary(base, &temporary);
        }
        placed?;
        self.done += 1;
        Ok(made)
    }

    /// Creates a directory at a temporary name. The journal knows it once it reaches its place.
    fn make_directory(&mut self, (directory, name): NamedEntry<'_>) -> Result<VnodeRef> {
        let made = directory.mkdir(&Caller::server(), name.as_name(), 0o700)?.vnode;
        // Others who may rename there could already have replaced it.
        if !objects::entries(&made)?.is_empty() {
            return Err(Errno::EBUSY);
        }
        self.journal.record_permissions(&made.handle(), Some(DirectoryPermissions::of(&made)?))?;
        self.journal.sync()?;
        Ok(made)
    }

    /// Removes the objects deleted in the fork.
    fn remove_gone(&mut self, pair: &CommittedDirectory) -> CommitStep {
        let server = Caller::server();
        for name in &pair.gone {
            let path = pair.path.join(name.as_name());
            let Some(there) = objects::find(&pair.base, name.as_name()).at(&path)? else { continue };
            self.refuse_changed(&there, &path)?;
            self.done += 1;
            if is_directory(&there) {
                let temporary = self.temporary_name();
                self.journal.record_aside(&there.vnode.handle()).at(&path)?;
                pair.base
                    .rename_verified(&server, name.as_name(), &pair.base, temporary.as_name(), RenameMode::NoReplace)
                    .and_then(|()| self.remove_temporary(&pair.base, &temporary))
                    .at(&path)?;
            } else {
                pair.base.unlink_verified(&server, name.as_name()).at(&path)?;
            }
        }
        Ok(())
    }

    /// Gives directories the owner, permissions, attributes and times of the fork's, children before parents.
    fn finish_directories(&mut self, pairs: &[CommittedDirectory]) -> CommitStep {
        let mut unfinished = Vec::new();
        for pair in pairs.iter().rev() {
            unfinished.extend(self.permissions_before(pair)?.map(|present| (pair, present)));
        }
        self.journal.sync().at(&TreePath::root())?;
        let mut finished = Vec::new();
        for (pair, present) in unfinished {
            finished.push((pair, self.finish_directory(pair, present)?));
        }
        self.file_system.sync().at(&TreePath::root())?;
        for (pair, permissions) in finished {
            self.journal.record_permissions(&pair.base.handle(), Some(permissions)).at(&pair.path)?;
        }
        self.journal.sync().at(&TreePath::root())
    }

    /// The present permissions of a directory that is to be finished, recorded in the journal as about to change. If they
    /// differ from those that this commit knows, others have changed them.
    fn permissions_before(&mut self, pair: &CommittedDirectory) -> CommitStep<Option<DirectoryPermissions>> {
        let (server, handle) = (Caller::server(), pair.base.handle());
        let (wanted, there) = (pair.upper.getattr(&server).at(&pair.path)?, pair.base.getattr(&server).at(&pair.path)?);
        let (permissions, present) = (
            DirectoryPermissions::of(&pair.upper).at(&pair.path)?,
            DirectoryPermissions::of(&pair.base).at(&pair.path)?,
        );
        if permissions == present {
            return Ok(if wanted.mtime == there.mtime { None } else { Some(present) });
        }
        let known = self.journal.permissions_of(&handle).flatten();
        if known.is_some_and(|known| known != present) && !self.options.force {
            return Err(CommitFailure::conflict(pair.path.slashed(), ForeignChange::Changed));
        }
        self.journal.record_permissions(&handle, None).at(&pair.path)?;
        Ok(Some(present))
    }

    /// Finishes a directory that had these permissions; returns its new ones.
    fn finish_directory(
        &mut self,
        pair: &CommittedDirectory,
        present: DirectoryPermissions,
    ) -> CommitStep<DirectoryPermissions> {
        if DirectoryPermissions::of(&pair.base).at(&pair.path)? != present && !self.options.force {
            return Err(CommitFailure::conflict(pair.path.slashed(), ForeignChange::Changed));
        }
        let wanted = pair.upper.getattr(&Caller::server()).at(&pair.path)?;
        let lost = replace_attributes(&pair.upper, &pair.base).at(&pair.path)?;
        let finished = DirectoryPermissions::of(&pair.base).at(&pair.path)?;
        self.record_lost(&pair.path, lost).at(&pair.path)?;
        if let Some(&later) = self.foreign_mtimes.get(&pair.base.handle()).filter(|later| **later > wanted.mtime) {
            let later = SetAttributes { mtime: Some(SetTime::To(later)), ..SetAttributes::default() };
            pair.base.setattr(&Caller::server(), &later).at(&pair.path)?;
        }
        Ok(finished)
    }

    /// Removes what an interrupted commit has left in a directory.
    fn remove_leftovers(&self, directory: &VnodeRef) -> Result<()> {
        let names = objects::entries(directory)?.into_iter().map(|(name, _)| name);
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
