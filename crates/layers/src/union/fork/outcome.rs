//! How a commit is asked for, and what comes of it: conflicts with what others did, and errors with the path of what failed.

use std::fmt;

use vnode::{Errno, Result, Timestamp};

use super::super::losses::Losses;
use super::super::tree_path::TreePath;

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
    pub(super) fn after(self, before: u64) -> Self {
        match self {
            Self::Conflicts { conflicts, done } => Self::Conflicts { conflicts, done: before + done },
            Self::Stopped { path, errno, done } => Self::Stopped { path, errno, done: before + done },
        }
    }
}

/// What stops a commit: where, and why.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) path: Vec<u8>,
    pub(super) errno: Errno,
    /// Others have changed the object.
    pub(super) is_conflict: bool,
}

pub(super) type Step<T = ()> = std::result::Result<T, Failed>;

impl Failed {
    pub(super) fn conflict(path: Vec<u8>, deed: Deed) -> Self {
        let errno = if deed == Deed::Removed { Errno::ESTALE } else { Errno::EBUSY };
        Self { path, errno, is_conflict: true }
    }
}

/// Tells where an error happened.
pub(super) trait AtPath<T> {
    fn at(self, path: &impl Location) -> Step<T>;
}

impl<T> AtPath<T> for Result<T> {
    fn at(self, path: &impl Location) -> Step<T> {
        self.map_err(|errno| Failed { path: path.to_path(), errno, is_conflict: false })
    }
}

/// Something that says where it is: by the names in branches, with a slash before each.
pub(super) trait Location {
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

pub(super) fn is_directory(entry: &vnode::Entry) -> bool {
    entry.attributes.is_directory()
}
