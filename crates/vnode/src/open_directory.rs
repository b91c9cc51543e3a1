//! An open directory: its entries, by stable cookies.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::{Caller, Cookie, FileKind, InodeNumber, Name, Result};

/// A shared open directory.
pub type OpenDirectoryRef = Arc<dyn OpenDirectory>;

/// One entry of a directory. `.` and `..` are never among them: front ends add them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The name.
    pub name: Name<'a>,
    /// The inode number, as getattr reports it.
    pub ino: InodeNumber,
    /// The kind; `None` if determining it would require a lookup.
    pub kind: Option<FileKind>,
    /// Position at which to continue after this entry: from [`Cookie::FIRST`] to [`Cookie::LAST`].
    pub cookie: Cookie,
}

/// An open directory. Dropping the last reference releases it.
pub trait OpenDirectory: Send + Sync + 'static {
    /// Passes the entries after `cookie` ([`Cookie::START`]: from the start) to `sink` until it breaks or there are no more. An entry
    /// on which the sink breaks counts as not passed. Entries that exist throughout are passed exactly once; those
    /// added or removed meanwhile, at most once. Concurrent calls are allowed, each with its own position.
    ///
    /// # Errors
    /// As getdents(2); `ENOENT` for a removed directory is allowed, as is an empty result.
    fn read(
        &self,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Returns the inode numbers listed for `.` and `..`, if the file system reports them with the entries. To be
    /// called before a read from the start, which returns the entries of the same moment. Default: they are not
    /// reported, and a front end queries the directories.
    fn dots(&self) -> Option<[InodeNumber; 2]> {
        None
    }

    /// Flushes the directory's entries to stable storage, as fsync(2). Default: does nothing.
    ///
    /// # Errors
    /// As fsync(2).
    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        let _ = (caller, data_only);
        Ok(())
    }
}
