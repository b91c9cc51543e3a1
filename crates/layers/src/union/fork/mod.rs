//! A fork of a file system: a union of the file system, which is only read, and a branch that takes all changes, until
//! these are committed to the file system or thrown away.

mod changes;
mod commit;
mod conflicts;
mod journal;
mod leaving;
mod moves;
mod names;
mod plain;
mod rights;
mod whole;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use vnode::{Caller, Errno, FileSystemRef, Result, Timestamp, layer};

use super::copy_up::copy_attributes;
use super::diff;
use super::losses::{Loss, Losses};
use super::settings::Settings;
use super::tree_path::TreePath;
use super::{Member, Union, UnionFileSystem};
use crate::{Branch, BranchMode, OptionError};
use commit::Commit;
pub use diff::{Change, Difference, to_json};
use journal::Journal;
use plain::Plain;

/// A fork: what is done in it is seen in it only.
pub struct Fork {
    union: Arc<UnionFileSystem>,
    /// The file system, with names as the branch of changes has them, changed as the caller.
    stack: FileSystemRef,
}

/// How changes are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitOptions {
    /// When the fork began: what others have changed later is in conflict with what the fork has changed.
    pub since: Timestamp,
    /// In a conflict, what the fork has replaces what the others have made.
    pub force: bool,
}

/// What a commit has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// How many changes were made.
    pub changes: u64,
    /// What the file system did not keep of them, by path from the root, without a slash before it: also of those that earlier
    /// calls have made.
    pub lost: Vec<(Vec<u8>, Losses)>,
}

/// Something that the fork has changed, and others too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// From the root, without a slash before it.
    pub path: Vec<u8>,
    /// What the others did.
    pub deed: Deed,
}

/// What others have done to an object of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// They have made, changed or replaced it.
    Changed,
    /// They have removed it or moved it away.
    Removed,
}

/// Why changes are not committed, or not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// Others have changed the same. Nothing else was committed than `done` changes.
    Conflicts {
        /// All that were found.
        conflicts: Vec<Conflict>,
        /// How many changes were committed before.
        done: u64,
    },
    /// A change could not be made. Those before it are committed, and are passed over next time.
    Stopped {
        /// Where, from the root.
        path: Vec<u8>,
        /// Why.
        errno: Errno,
        /// How many changes were committed.
        done: u64,
    },
}

impl fmt::Display for Deed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Changed => "changed",
            Self::Removed => "removed",
        })
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflicts { conflicts, .. } => {
                write!(formatter, "others have changed {} of the objects that the fork has changed", conflicts.len())
            }
            Self::Stopped { path, errno, .. } => {
                write!(formatter, "cannot commit /{}: {errno}", String::from_utf8_lossy(path))
            }
        }
    }
}

impl std::error::Error for CommitError {}

impl CommitError {
    /// The same, when so many changes had been committed before.
    fn after(self, before: u64) -> Self {
        match self {
            Self::Conflicts { conflicts, done } => Self::Conflicts { conflicts, done: before + done },
            Self::Stopped { path, errno, done } => Self::Stopped { path, errno, done: before + done },
        }
    }
}

impl Fork {
    /// The fork of `stack` whose changes are in `changes`: an empty file system, or one that has those of this fork.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub fn new(changes: FileSystemRef, stack: FileSystemRef) -> std::result::Result<Self, OptionError> {
        let branch = |file_system, mode, label: &str| Branch { file_system, mode: Some(mode), label: label.to_owned() };
        let seen = layer::stack(Plain { committer: None }, Arc::clone(&stack));
        let branches =
            vec![branch(changes, BranchMode::ReadWrite, "changes"), branch(seen, BranchMode::ReadOnly, "stack")];
        // Whoever uses the fork does so for long.
        let union = Arc::new(UnionFileSystem::with_settings(branches, None, Settings::default(), Duration::ZERO)?);
        let stack = layer::stack(Plain { committer: Some(plain::committer()) }, stack);
        Ok(Self { union, stack })
    }

    /// Takes the branch of changes for this fork alone, for as long as it is in use. `is_new` says that it has none yet.
    ///
    /// # Errors
    /// `EBUSY` if it is in use; `EPERM` if the branch cannot have the owner of the file system's root; those of writing to it.
    pub fn hold(&self, is_new: bool) -> Result<()> {
        let upper = self.upper();
        upper.work.directory()?;
        // What that has made there has changed the times of the root.
        if is_new {
            let lost = copy_attributes(&Caller::server(), &self.stack.root(), &upper.root, None)?;
            if lost.has(Loss::Owner) {
                return Err(Errno::EPERM);
            }
        }
        Ok(())
    }

    /// The fork as it is seen, to be mounted.
    pub fn file_system(&self) -> FileSystemRef {
        Arc::clone(&self.union) as FileSystemRef
    }

    /// What is different in the fork.
    ///
    /// # Errors
    /// Of reading it.
    pub fn differences(&self) -> Result<Vec<Difference>> {
        let union = self.union();
        let slots = union.branches.slots().to_vec();
        let older = union.view_of(slots[1..].to_vec());
        let newer = union.view_of(slots);
        diff::compare(&older.root_node(), &newer.root_node())
    }

    /// Makes all changes of the fork in the file system. Stopped half-way, by an error or a crash, it can be called again:
    /// what is committed already is passed over. Nobody may be using the fork, and it is not to be used afterwards, unless
    /// made anew.
    ///
    /// Each object is replaced in one step: others see it as it was or as it is in the fork. Deletions come last.
    ///
    /// # Errors
    /// [`CommitError`]. Nothing is changed if there are conflicts when it begins; with those that come later, nothing further.
    pub fn commit(&self, options: &CommitOptions) -> std::result::Result<Committed, CommitError> {
        let mut before = 0;
        loop {
            let mut commit = self.prepared(options)?;
            match commit.run() {
                // Below the directory that is forked there are several file systems.
                Err(CommitError::Stopped { path, errno: Errno::EXDEV, done })
                    if whole::bring_rest(self.union(), &self.upper(), &path)
                        .map_err(|errno| CommitError::Stopped { path: path.clone(), errno, done: before + done })? =>
                {
                    before += done;
                }
                Err(error) => return Err(error.after(before)),
                Ok(()) => return Ok(Committed { changes: before + commit.done, lost: commit.lost() }),
            }
        }
    }

    /// The directories that a commit which was stopped has taken from their places and not brought to those that the fork has them
    /// in, by path. As long as there is one, only a commit is safe: discarding the fork would leave it where nobody looks for it, and
    /// who goes on in the fork would find it empty.
    ///
    /// # Errors
    /// Of reading the fork or the file system.
    pub fn moves_under_way(&self) -> std::result::Result<Vec<Vec<u8>>, CommitError> {
        let upper = self.upper();
        let stopped = |errno| CommitError::Stopped { path: Vec::new(), errno, done: 0 };
        let Some(journal) = Journal::open_if_there(&upper.root, &upper.work).map_err(stopped)? else {
            return Ok(Vec::new());
        };
        let options = CommitOptions { since: Timestamp { seconds: 0, nanoseconds: 0 }, force: false };
        Commit::new(upper, self.lower(), Arc::clone(&self.stack), journal, &options).moves_under_way()
    }

    fn prepared<'a>(&self, options: &'a CommitOptions) -> std::result::Result<Commit<'a>, CommitError> {
        // Somebody may have used the changes with `metacopy=on`.
        let brought = self.union().bring_all(&self.upper());
        brought
            .and_then(|()| names::settle_names(self.union(), &self.upper()))
            .map_err(|errno| CommitError::Stopped { path: Vec::new(), errno, done: 0 })?;
        let journal = Journal::open(&self.upper().work);
        let journal = journal.map_err(|errno| CommitError::Stopped { path: Vec::new(), errno, done: 0 })?;
        Ok(Commit::new(self.upper(), self.lower(), Arc::clone(&self.stack), journal, options))
    }

    fn union(&self) -> &Arc<Union> {
        &self.union.union
    }

    fn upper(&self) -> Arc<Member> {
        Arc::clone(&self.union().branches.slots()[0].member)
    }

    fn lower(&self) -> Arc<Member> {
        Arc::clone(&self.union().branches.slots()[1].member)
    }
}

/// What stops a commit: where, and why.
#[derive(Debug)]
struct Failed {
    path: Vec<u8>,
    errno: Errno,
    /// Others have changed the object.
    is_conflict: bool,
}

type Step<T = ()> = std::result::Result<T, Failed>;

impl Failed {
    fn conflict(path: Vec<u8>, deed: Deed) -> Self {
        let errno = if deed == Deed::Removed { Errno::ESTALE } else { Errno::EBUSY };
        Self { path, errno, is_conflict: true }
    }
}

/// Tells where an error happened.
trait AtPath<T> {
    fn at(self, path: &impl Location) -> Step<T>;
}

impl<T> AtPath<T> for Result<T> {
    fn at(self, path: &impl Location) -> Step<T> {
        self.map_err(|errno| Failed { path: path.to_path(), errno, is_conflict: false })
    }
}

/// Something that says where it is: by the names in branches, with a slash before each.
trait Location {
    fn to_path(&self) -> Vec<u8>;
}

impl Location for Vec<u8> {
    fn to_path(&self) -> Vec<u8> {
        self.clone()
    }
}

impl Location for TreePath {
    fn to_path(&self) -> Vec<u8> {
        self.slashed()
    }
}

fn is_directory(entry: &vnode::Entry) -> bool {
    entry.attributes.is_directory()
}
