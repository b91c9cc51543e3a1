//! Options and results of a commit: conflicts with others' changes, and errors with the path of the object that failed.

use std::fmt;

use vnode::{Errno, Result, Timestamp};

use crate::union::branch::losses::Losses;
use crate::union::tree_path::TreePath;

/// Options of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitOptions {
    /// Time at which the fork began: others' later changes conflict with those of the fork.
    pub since: Timestamp,
    /// Whether the fork's objects replace those of others in a conflict.
    pub force: bool,
}

/// Result of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Number of changes made.
    pub changes: u64,
    /// Attributes of them that the file system could not preserve, by path from the root, without a leading slash; changes made
    /// by earlier calls are included.
    pub lost: Vec<(Vec<u8>, Losses)>,
}

/// An object that both the fork and others have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Path from the root, without a leading slash.
    pub path: Vec<u8>,
    /// Kind of the others' change.
    pub change: ForeignChange,
}

/// Kind of a change that others have made to an object of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignChange {
    /// They have created, changed or replaced it.
    Changed,
    /// They have removed it or moved it away.
    Removed,
}

/// Reason why changes are not committed, or not all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// Others have changed the same objects. Only `done` changes were committed.
    Conflicts {
        /// All conflicts found.
        conflicts: Vec<Conflict>,
        /// Number of changes committed before.
        done: u64,
    },
    /// A change could not be made. Those before it are committed, and are skipped next time.
    Stopped {
        /// Path from the root.
        path: Vec<u8>,
        /// The error.
        errno: Errno,
        /// Number of committed changes.
        done: u64,
    },
    /// What is to be recorded of the commit cannot be written beside the changes of the fork. The changes before are committed,
    /// and are skipped next time.
    Records {
        /// The error.
        errno: Errno,
        /// Number of committed changes.
        done: u64,
    },
}

impl fmt::Display for ForeignChange {
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
            Self::Records { errno, .. } => {
                write!(formatter, "cannot write the records of the commit into the scratch directory: {errno}")
            }
        }
    }
}

impl std::error::Error for CommitError {}

impl CommitError {
    /// The error after `before` changes of earlier calls.
    pub(crate) fn after(self, before: u64) -> Self {
        match self {
            Self::Conflicts { conflicts, done } => Self::Conflicts { conflicts, done: before + done },
            Self::Stopped { path, errno, done } => Self::Stopped { path, errno, done: before + done },
            Self::Records { errno, done } => Self::Records { errno, done: before + done },
        }
    }

    /// Returns the number of changes that were committed before the error.
    pub fn done(&self) -> u64 {
        match self {
            Self::Conflicts { done, .. } | Self::Stopped { done, .. } | Self::Records { done, .. } => *done,
        }
    }
}

/// Path and error that stop a commit.
#[derive(Debug)]
pub(crate) struct CommitFailure {
    pub(crate) path: Vec<u8>,
    pub(crate) errno: Errno,
    /// Whether others have changed the object.
    pub(crate) is_conflict: bool,
}

pub(crate) type CommitStep<T = ()> = std::result::Result<T, CommitFailure>;

impl CommitFailure {
    pub(crate) fn conflict(path: Vec<u8>, change: ForeignChange) -> Self {
        let errno = if change == ForeignChange::Removed { Errno::ESTALE } else { Errno::EBUSY };
        Self { path, errno, is_conflict: true }
    }
}

/// Adds the path at which an error happened.
pub(crate) trait AtPath<T> {
    fn at(self, path: &impl HasPath) -> CommitStep<T>;
}

impl<T> AtPath<T> for Result<T> {
    fn at(self, path: &impl HasPath) -> CommitStep<T> {
        self.map_err(|errno| CommitFailure { path: path.to_path(), errno, is_conflict: false })
    }
}

/// An object that has a path: by the names in branches, with a slash before each.
pub(crate) trait HasPath {
    fn to_path(&self) -> Vec<u8>;
}

impl HasPath for Vec<u8> {
    fn to_path(&self) -> Vec<u8> {
        self.clone()
    }
}

impl HasPath for TreePath {
    fn to_path(&self) -> Vec<u8> {
        self.slashed()
    }
}

pub(crate) fn is_directory(entry: &vnode::Entry) -> bool {
    entry.attributes.is_directory()
}
