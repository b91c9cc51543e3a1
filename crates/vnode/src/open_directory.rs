//! An open directory: its entries, by stable cookies.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::{Caller, FileKind, Name, Result};

/// A shared open directory.
pub type OpenDirectoryRef = Arc<dyn OpenDirectory>;

/// One entry of a directory. `.` and `..` are never among them: front ends add them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The name.
    pub name: Name<'a>,
    /// The inode number, the same that getattr tells.
    pub ino: u64,
    /// The kind; `None` where it would cost a look-up.
    pub kind: Option<FileKind>,
    /// Where to go on after this entry: never 0. Below 2^63, unique within the directory, and valid for as long as the
    /// directory is: after it is opened again, and after other entries, or this one, are gone. Cookies 1 and 2 are left
    /// to front ends, for `.` and `..`: a base whose own would be those maps them.
    pub cookie: u64,
}

/// An open directory. Dropping the last reference releases it.
pub trait OpenDirectory: Send + Sync + 'static {
    /// Gives `sink` the entries after `cookie` (0: from the start) until it breaks or there are no more. An entry that
    /// made the sink break counts as not given. Entries that stay throughout are given exactly once; those added or
    /// removed meanwhile, at most once. Concurrent calls are allowed, each with a position of its own.
    ///
    /// # Errors
    /// As getdents(2); `ENOENT` for a removed directory is allowed, as is an empty answer.
    fn read(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// The numbers that `.` and `..` are listed with, if the file system tells them with the entries. To be asked before
    /// a read from the start, which gives the entries of the same moment. Default: it does not, and a front end asks the
    /// directories.
    fn dots(&self) -> Option<[u64; 2]> {
        None
    }

    /// The directory's entries reach stable storage, as fsync(2). Default: nothing to do.
    ///
    /// # Errors
    /// As fsync(2).
    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        let _ = (caller, data_only);
        Ok(())
    }
}
