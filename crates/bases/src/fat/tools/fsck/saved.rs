//! What is saved of lost chains and directories, and where.

use crate::fat::tools::directory::DirectoryRange;

/// An entry that was created.
pub(crate) struct SavedEntry {
    /// Path.
    pub(crate) path: String,
    /// Position.
    pub(crate) position: u64,
    /// First cluster of its directory, as an entry `..` says it.
    pub(crate) parent: u32,
}

/// The directory in which entries are created when the root directory is nearly full.
#[derive(Clone, Debug)]
pub(crate) struct SavedDirectory {
    /// Where its slots are.
    pub(crate) range: DirectoryRange,
    /// Path.
    pub(crate) path: String,
}
