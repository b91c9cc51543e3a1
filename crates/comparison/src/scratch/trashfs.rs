//! Trashfs renames what is deleted to a name with .deleted behind it. What has such a name already is deleted;
//! where the new name is taken, nothing is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::RenameFlags;

use super::pass_through::{Caller, Operations, PassThrough, Result};

/// What stands behind the names of deleted files.
const ENDING: &[u8] = b".deleted";

/// The file system.
pub struct Trashfs {
    below: PassThrough,
}

impl Trashfs {
    /// Shows what lies there.
    pub fn new(below: PassThrough) -> Self {
        Self { below }
    }
}

impl Operations for Trashfs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn unlink(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        let bytes = name.as_bytes();
        if bytes.len() > ENDING.len() && bytes.ends_with(ENDING) {
            return self.below.unlink(caller, parent, name);
        }
        let renamed = [bytes, ENDING].concat();
        self.below.rename(caller, (parent, name), (parent, OsStr::from_bytes(&renamed)), RenameFlags::NOREPLACE)
    }
}
