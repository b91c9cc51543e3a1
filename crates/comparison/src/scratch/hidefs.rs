//! Hidefs shows a tree as it is, but for names that begin with a dot, and lets nobody change it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{FileAttr, MountOption};
use rustix::io::Errno;

use super::pass_through::{Caller, Listed, Operations, PassThrough, Result};

/// The file system.
pub struct Hidefs {
    below: PassThrough,
}

impl Hidefs {
    /// Shows what lies there.
    pub fn new(below: PassThrough) -> Self {
        Self { below }
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

impl Operations for Hidefs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn mount_options(&self) -> Vec<MountOption> {
        vec![MountOption::RO]
    }

    fn lookup(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<FileAttr> {
        if is_hidden(name) { Err(Errno::NOENT) } else { self.below.lookup(caller, parent, name) }
    }

    fn list(&self, caller: &Caller, number: u64, handle: u64) -> Result<Vec<Listed>> {
        let mut listed = self.below.list(caller, number, handle)?;
        listed.retain(|entry| !is_hidden(&entry.name) || entry.name == "." || entry.name == "..");
        Ok(listed)
    }
}
