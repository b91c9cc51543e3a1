//! A fork of a file system: a union of the file system, read-only, and a branch that receives all changes, until they are
//! committed to the file system or discarded.

mod changes;
mod commit;
mod conflicts;
mod cross_device;
mod fork_base;
mod journal;
mod moved;
mod moves;
mod names;
mod outcome;
mod permissions;
mod removed;

use std::sync::Arc;
use std::time::Duration;

use vnode::{Caller, Errno, FileSystemRef, Result, Timestamp, layer};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::losses::Loss;
use crate::union::branch::state_directory::LATER_VERSION;
use crate::union::copy_up::copy_attributes;
use crate::union::file_system::UnionFileSystem;
use crate::union::settings::UnionSettings;
use crate::union::snapshots::diff;
use crate::union::state::Union;
use crate::{Branch, BranchMode, OptionError};
use commit::Commit;
pub use diff::{Change, Difference, format_differences, to_json};
use fork_base::ForkBase;
use journal::Journal;
pub use outcome::{CommitError, CommitOptions, Committed, Conflict, ForeignChange};

/// A fork: changes made in it are visible only in it.
pub struct Fork {
    union: Arc<UnionFileSystem>,
    /// The file system, with names in the form of the branch of changes, changed as the committing process.
    stack: FileSystemRef,
}

impl Fork {
    /// Creates a fork of `stack` with its changes in `changes`: an empty file system, or one that has those of this fork.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub fn new(changes: FileSystemRef, stack: FileSystemRef) -> std::result::Result<Self, OptionError> {
        let branch = |file_system, mode, label: &str| Branch {
            file_system,
            mode: Some(mode),
            label: label.to_owned(),
            minimum_free: None,
        };
        let seen = layer::stack(ForkBase { committer: None }, Arc::clone(&stack));
        let branches =
            vec![branch(changes, BranchMode::ReadWrite, "changes"), branch(seen, BranchMode::ReadOnly, "stack")];
        // The user of a fork holds it for long.
        let union = Arc::new(UnionFileSystem::with_settings(branches, None, UnionSettings::default(), Duration::ZERO)?);
        let stack = layer::stack(ForkBase { committer: Some(fork_base::committer()) }, stack);
        Ok(Self { union, stack })
    }

    /// Claims the branch of changes exclusively for this fork, for as long as it is in use. `is_new` says that it is still
    /// empty.
    ///
    /// # Errors
    /// `EBUSY` if it is in use; `EPERM` if the branch cannot have the owner of the file system's root; errors from writing to
    /// it.
    pub fn hold(&self, is_new: bool) -> Result<()> {
        let upper = self.upper();
        upper.work.directory()?;
        // Creating the state directory has changed the times of the root.
        if is_new {
            let lost = copy_attributes(&Caller::server(), &self.stack.root(), &upper.root, None)?;
            if lost.has(Loss::Owner) {
                return Err(Errno::EPERM);
            }
        }
        Ok(())
    }

    /// The fork as a file system to be mounted.
    pub fn file_system(&self) -> FileSystemRef {
        Arc::clone(&self.union) as FileSystemRef
    }

    /// Returns whether a program may have mapped a file of the fork for writing, which it may do without having the file, or anything
    /// else of the mount, open.
    pub fn is_mapped(&self) -> bool {
        !self.union().direct_files.nodes().is_empty()
    }

    /// Differences made in the fork.
    ///
    /// # Errors
    /// Errors from reading it.
    pub fn differences(&self) -> Result<Vec<Difference>> {
        let union = self.union();
        let slots = union.branches.slots().to_vec();
        let older = union.read_only_union(slots[1..].to_vec());
        let newer = union.read_only_union(slots);
        diff::compare(&older.root_node(), &newer.root_node())
    }

    /// Applies all changes of the fork to the file system. After an interruption, by an error or a crash, it can be called
    /// again: changes that are already committed are skipped. Nobody may be using the fork, and it must not be used afterwards,
    /// unless it is created anew.
    ///
    /// Each object is replaced atomically: others see it in its former state or as in the fork. Deletions come last.
    ///
    /// # Errors
    /// [`CommitError`]. Nothing is changed if there are conflicts at the beginning; after a later conflict, nothing further is.
    pub fn commit(&self, options: &CommitOptions) -> std::result::Result<Committed, CommitError> {
        let mut before = 0;
        loop {
            let mut commit = self.prepared(options)?;
            match commit.run() {
                // There are several file systems below the forked directory.
                Err(CommitError::Stopped { path, errno: Errno::EXDEV, done })
                    if cross_device::copy_lower_part(self.union(), &self.upper(), &path)
                        .map_err(|errno| CommitError::Stopped { path: path.clone(), errno, done: before + done })? =>
                {
                    before += done;
                }
                Err(error) => return Err(error.after(before)),
                Ok(()) => return Ok(Committed { changes: before + commit.done, lost: commit.lost() }),
            }
        }
    }

    /// Returns whether a commit was begun and not finished: some changes may be committed already.
    pub fn has_begun_commit(&self) -> bool {
        let upper = self.upper();
        let journal = Journal::open_existing(&upper.root, &upper.work);
        journal.is_ok_and(|journal| journal.is_some_and(|journal| journal.is_resumed))
    }

    /// Directories that an interrupted commit has taken from their locations and not moved to those that they have in the fork,
    /// by path. As long as there are any, only a commit is safe: discarding the fork would leave them where nobody looks for
    /// them, and users of the fork would find them empty.
    ///
    /// # Errors
    /// Errors from reading the fork or the file system.
    pub fn moves_under_way(&self) -> std::result::Result<Vec<Vec<u8>>, CommitError> {
        let upper = self.upper();
        let stopped = |errno| CommitError::Stopped { path: Vec::new(), errno, done: 0 };
        let Some(journal) = Journal::open_existing(&upper.root, &upper.work).map_err(stopped)? else {
            return Ok(Vec::new());
        };
        let options = CommitOptions { since: Timestamp { seconds: 0, nanoseconds: 0 }, force: false };
        Commit::new(upper, self.lower(), Arc::clone(&self.stack), journal, &options).moves_under_way()
    }

    fn prepared<'a>(&self, options: &'a CommitOptions) -> std::result::Result<Commit<'a>, CommitError> {
        // Somebody may have used the changes with `metacopy=on`.
        let filled = self.union().fill_all(&self.upper());
        filled
            .and_then(|()| names::link_up_names(self.union(), &self.upper()))
            .map_err(|errno| CommitError::Stopped { path: Vec::new(), errno, done: 0 })?;
        let journal = Journal::open(&self.upper().work).map_err(|errno| match errno {
            LATER_VERSION => CommitError::Stopped { path: Vec::new(), errno, done: 0 },
            errno => CommitError::Records { errno, done: 0 },
        })?;
        Ok(Commit::new(self.upper(), self.lower(), Arc::clone(&self.stack), journal, options))
    }

    fn union(&self) -> &Arc<Union> {
        &self.union.union
    }

    fn upper(&self) -> Arc<BranchMember> {
        Arc::clone(&self.union().branches.slots()[0].member)
    }

    fn lower(&self) -> Arc<BranchMember> {
        Arc::clone(&self.union().branches.slots()[1].member)
    }
}
