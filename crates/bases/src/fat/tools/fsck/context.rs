//! The directory that is being checked.

use super::owner::Owner;
use crate::fat::tools::directory::DirectoryRange;

/// A directory that is being checked.
pub(crate) struct DirectoryContext {
    /// Where its slots are.
    pub(crate) range: DirectoryRange,
    /// First cluster of the directory above, as an entry `..` says it: 0 for the root directory.
    pub(crate) parent: u32,
    /// Path, ending with a slash.
    pub(crate) path: String,
    /// The entry; `None` for the root directory.
    pub(crate) owner: Option<Owner>,
}

/// A directory that is to be checked.
pub(crate) struct PendingDirectory {
    /// The entry.
    pub(crate) owner: Owner,
    /// The name.
    pub(crate) name: Box<str>,
    /// Where its slots are.
    pub(crate) range: DirectoryRange,
}

/// An entry `..` that is wrong unless another entry of the directory is right.
pub(crate) struct SuspendedAbove {
    /// First cluster of the directory.
    pub(crate) directory: u32,
    /// Position of its entry `..`.
    pub(crate) position: u64,
    /// The cluster that it should have according to the entry by which the directory was found.
    pub(crate) above: u32,
    /// Path of the directory.
    pub(crate) path: String,
}

impl DirectoryContext {
    /// Returns whether this is the root directory.
    pub(crate) fn is_root(&self) -> bool {
        self.owner.is_none()
    }

    /// Returns the path as findings show it, without the slash at its end.
    pub(crate) fn shown(&self) -> &str {
        match self.path.trim_end_matches('/') {
            "" => "/",
            path => path,
        }
    }
}
