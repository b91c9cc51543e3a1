//! Moves in the file system, with their contents, the directories that the fork has moved.
//!
//! A directory that can move to its new location at once does. The others first leave their old locations, since one may move
//! to where another was: meanwhile they are in a directory of this commit at the root.

use std::collections::{HashMap, HashSet};

use vnode::{Caller, Entry, Errno, Handle, NameBuf, RenameMode, Result, VnodeRef};

use super::changes::{DirectoryChanges, LowerPart, join, visible_path};
use super::commit::Commit;
use super::moved::{MovedDirectory, depth, find_moved, locate, tree_path};
use super::outcome::{AtPath, CommitError, CommitFailure, CommitStep, ForeignChange, is_directory};
use crate::union::branch::objects;
use crate::union::branch::objects::keeping_times;
use crate::union::branch::objects::sync_directory;
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout;
use crate::union::tree_path::TreePath;

impl Commit<'_> {
    /// Moves all of them.
    pub(crate) fn move_directories(&mut self, mut moved: Vec<MovedDirectory>) -> CommitStep {
        let mut removed_by_others = Vec::new();
        for directory in &moved {
            if self.journal.moved_to(&directory.upper.handle()).is_some() {
                continue;
            }
            match locate(&self.root, &directory.former_path).at(&directory.path)? {
                Some(located) if is_directory(&located.entry) => {
                    self.journal
                        .record_move(&directory.upper.handle(), &located.entry.vnode.handle())
                        .at(&directory.path)?;
                }
                _ => removed_by_others.push(directory.upper.handle()),
            }
        }
        if moved.is_empty() {
            return Ok(());
        }
        let sources = self.record_sources(&moved)?;
        self.journal.sync().at(&TreePath::root())?;
        // Deepest first: a path stays valid as long as nothing above it has moved.
        moved.sort_by_key(|directory| std::cmp::Reverse(depth(&directory.former_path)));
        for directory in &moved {
            self.detach_lower_part(directory)?;
        }
        for source in sources.values() {
            let time = source.getattr(&Caller::server()).at(&TreePath::root())?.mtime;
            self.journal.record_source_mtime(&source.handle(), Some(time)).at(&TreePath::root())?;
        }
        // Topmost first: the new location of one may be inside another.
        moved.sort_by_key(|directory| depth(&directory.path));
        for directory in &moved {
            if removed_by_others.contains(&directory.upper.handle()) {
                // Others have removed it, and are overruled: the fork's own contents are all that is left.
                whiteout::set_opaque(&directory.upper, whiteout::WhiteoutFormat::Names).at(&directory.path)?;
                whiteout::remove_redirect(&directory.upper).at(&directory.path)?;
            } else {
                self.place_lower_part(directory)?;
            }
        }
        self.remove_staging()
    }

    /// The directories out of which others move, which changes their times.
    fn record_sources(&mut self, moved: &[MovedDirectory]) -> CommitStep<HashMap<Handle, VnodeRef>> {
        let mut sources = HashMap::new();
        for directory in moved {
            let rest = self.journal.moved_to(&directory.upper.handle());
            let located = locate(&self.root, &directory.former_path).at(&directory.path)?;
            let Some(located) = located.filter(|located| Some(located.entry.vnode.handle()) == rest) else { continue };
            let source = located.directory.handle();
            if sources.insert(source, located.directory).is_none() {
                self.journal.record_source_mtime(&source, None).at(&directory.path)?;
            }
        }
        Ok(sources)
    }

    fn detach_lower_part(&mut self, moved: &MovedDirectory) -> CommitStep {
        let Some(rest) = self.journal.moved_to(&moved.upper.handle()) else { return Ok(()) };
        let Some(located) = locate(&self.root, &moved.former_path).at(&moved.path)? else { return Ok(()) };
        if located.entry.vnode.handle() != rest {
            return Ok(());
        }
        let server = Caller::server();
        let name = located.name.as_name();
        if let Some(target) = self.free_target(moved).at(&moved.path)? {
            located
                .directory
                .rename_verified(&server, name, &target, moved.name.as_name(), RenameMode::NoReplace)
                .at(&moved.path)?;
            return self.record_arrived(moved, &target);
        }
        let staging = self.staging().at(&moved.path)?;
        located
            .directory
            .rename_verified(&server, name, &staging, moved.key().as_name(), RenameMode::NoReplace)
            .at(&moved.path)
    }

    /// The directory into which it can move at once: one that stays where it is, is as it was found, and has nothing of that
    /// name.
    fn free_target(&self, moved: &MovedDirectory) -> Result<Option<VnodeRef>> {
        let (mut upper, mut base, mut path) = (self.upper.root.clone(), self.root.clone(), TreePath::root());
        for part in moved.above() {
            let part = part?;
            let found = DirectoryChanges::of(&upper, &path)?.objects.into_iter().find(|object| object.name == part);
            let Some(object) = found.filter(|object| matches!(object.lower_part, LowerPart::Same | LowerPart::Own))
            else {
                return Ok(None);
            };
            let known = |there: &Entry| self.journal.permissions_of(&there.vnode.handle()).is_some();
            match objects::find(&base, part.as_name())?.filter(|there| is_directory(there) && known(there)) {
                Some(entry) => (upper, base, path) = (object.entry.vnode, entry.vnode, object.path),
                None => return Ok(None),
            }
        }
        Ok(if objects::find(&base, moved.name.as_name())?.is_none() { Some(base) } else { None })
    }

    fn place_lower_part(&mut self, moved: &MovedDirectory) -> CommitStep {
        let at = &moved.path;
        if whiteout::redirect(&moved.upper).at(at)?.is_none_or(|rest| rest == *at) {
            return Ok(());
        }
        let rest = self.journal.moved_to(&moved.upper.handle());
        let target = self.target_for(moved)?;
        let there = objects::find(&target, moved.name.as_name()).at(at)?;
        if there.as_ref().is_some_and(|there| Some(there.vnode.handle()) == rest) {
            return self.record_arrived(moved, &target);
        }
        let staging = self.staging().at(at)?;
        let staged = objects::find(&staging, moved.key().as_name()).at(at)?;
        if staged.is_none_or(|staged| Some(staged.vnode.handle()) != rest) {
            return Err(CommitFailure::conflict(at.clone(), ForeignChange::Removed));
        }
        if let Some(there) = &there {
            self.refuse_changed(there, &tree_path(at).at(at)?)?;
        }
        self.replace((&staging, &moved.key()), (&target, &moved.name), there.as_ref()).at(at)?;
        self.record_arrived(moved, &target)
    }

    /// The directory into which it moves, created if necessary.
    fn target_for(&mut self, moved: &MovedDirectory) -> CommitStep<VnodeRef> {
        let (mut base, mut path) = (self.root.clone(), TreePath::root());
        for part in moved.above() {
            let part = part.at(&moved.path)?;
            path = path.join(part.as_name());
            base = self.ensure_directory(&base, &part, &path)?;
        }
        Ok(base)
    }

    /// Records that the fork's directory now has its lower part at its own path, in this directory. That changes no times, and
    /// must not reach the disk before the lower part has.
    fn record_arrived(&mut self, moved: &MovedDirectory, target: &VnodeRef) -> CommitStep {
        sync_directory(target).at(&moved.path)?;
        self.done += 1;
        match (whiteout::set_redirect(&Caller::server(), &moved.upper, &moved.path), &moved.parent) {
            // The path is too long for a redirect.
            (Err(Errno::EXDEV), Some(parent)) => {
                keeping_times(parent, || whiteout::remove(parent, moved.name.as_name())).at(&moved.path)?;
                whiteout::remove_redirect(&moved.upper).at(&moved.path)
            }
            (set, _) => set.at(&moved.path),
        }
    }

    /// The directory that holds directories in transit.
    fn staging(&mut self) -> Result<VnodeRef> {
        if let Some(staging) = self.existing_staging()? {
            return Ok(staging);
        }
        let (server, name) = (Caller::server(), self.staging_name());
        match self.root.rmdir_verified(&server, name.as_name()) {
            // A directory that the journal does not list yet is empty, unless it is another's.
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        let made = self.root.mkdir(&server, name.as_name(), 0o700)?.vnode;
        self.journal.record_staging(&made.handle())?;
        Ok(made)
    }

    fn existing_staging(&self) -> Result<Option<VnodeRef>> {
        let there = objects::find(&self.root, self.staging_name().as_name())?.map(|entry| entry.vnode);
        Ok(there.filter(|there| Some(there.handle()) == self.journal.staging()))
    }

    /// Removes that directory, with everything that the moved ones have replaced, but never with a moved one.
    pub(crate) fn remove_staging(&self) -> CommitStep {
        let (path, name) = (self.staging_path(), self.staging_name());
        let Some(staging) = self.existing_staging().at(&path)? else { return Ok(()) };
        for (name, _) in objects::entries(&staging).at(&path)? {
            let there = objects::find(&staging, name.as_name()).at(&path)?;
            if !there.is_some_and(|there| self.journal.is_moved(&there.vnode.handle())) {
                self.remove_temporary(&staging, &name).at(&join(&path, &name))?;
            }
        }
        self.root.rmdir_verified(&Caller::server(), name.as_name()).at(&path)
    }

    /// Directories in transit that the fork no longer has, by path.
    fn stranded(&self, moved: &[MovedDirectory]) -> CommitStep<Vec<Vec<u8>>> {
        let path = self.staging_path();
        let Some(staging) = self.existing_staging().at(&path)? else { return Ok(Vec::new()) };
        let wanted: HashSet<Handle> =
            moved.iter().filter_map(|directory| self.journal.moved_to(&directory.upper.handle())).collect();
        let mut stranded = Vec::new();
        for (name, _) in objects::entries(&staging).at(&path)? {
            let there = objects::find(&staging, name.as_name()).at(&path)?.map(|there| there.vnode.handle());
            if there.is_some_and(|there| self.journal.is_moved(&there) && !wanted.contains(&there)) {
                stranded.push(join(&path, &name));
            }
        }
        Ok(stranded)
    }

    /// Stops if there is such a directory: what is to become of its contents is undecided.
    pub(crate) fn refuse_stranded(&self, moved: &[MovedDirectory]) -> CommitStep {
        let first = self.stranded(moved)?.into_iter().next();
        first.map_or(Ok(()), |path| Err(CommitFailure { path, errno: Errno::ENOTEMPTY, is_conflict: false }))
    }

    /// All directories that have left their old locations and not arrived, by path.
    pub(crate) fn moves_under_way(&self) -> std::result::Result<Vec<Vec<u8>>, CommitError> {
        let found = find_moved(&self.upper.root).and_then(|moved| {
            let mut paths = self.stranded(&moved)?;
            for directory in moved {
                let Some(rest) = self.journal.moved_to(&directory.upper.handle()) else { continue };
                for located in [self.staged(&directory), directory.path.clone()] {
                    let there = locate(&self.root, &located).at(&directory.path)?;
                    if there.is_some_and(|there| there.entry.vnode.handle() == rest) {
                        paths.push(directory.path.clone());
                    }
                }
            }
            Ok(paths)
        });
        let paths = found.map_err(|failed| self.error(failed))?;
        Ok(paths.iter().map(|path| visible_path(path)).collect())
    }

    /// Its path while in transit.
    pub(crate) fn staged(&self, moved: &MovedDirectory) -> Vec<u8> {
        join(&self.staging_path(), &moved.key())
    }

    fn staging_path(&self) -> Vec<u8> {
        join(&[], &self.staging_name())
    }

    fn staging_name(&self) -> NameBuf {
        NameBuf::new(format!(".plyfs-{}.moving", self.journal.id).into_bytes()).expect("it is short")
    }
}
