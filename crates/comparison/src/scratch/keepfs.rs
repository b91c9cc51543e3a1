//! Keepfs copies a file that is deleted to a hidden name: a file with several names keeps one copy of each.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use fuser::FileType;

use super::copy::copy_file;
use super::pass_through::{Caller, Operations, PassThrough, Result};

/// The file system.
pub struct Keepfs {
    below: PassThrough,
}

impl Keepfs {
    /// Shows what lies there.
    pub fn new(below: PassThrough) -> Self {
        Self { below }
    }
}

impl Operations for Keepfs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn unlink(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        let found = self.below.lookup(caller, parent, name)?;
        let mut kept = OsString::from(".kept.");
        kept.push(name);
        let copied = match found.kind {
            FileType::RegularFile if !name.as_bytes().starts_with(b".") => {
                copy_file(&self.below, caller, found.ino.0, parent, &kept)
            }
            _ => Ok(()),
        };
        self.below.forget(found.ino.0, 1);
        copied.and_then(|()| self.below.unlink(caller, parent, name))
    }
}
