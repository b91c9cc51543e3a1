//! Unionfs joins two file systems: what the first has hides what the second has. What is new or changed is so in the
//! first, and what is deleted goes from both.

use std::collections::HashSet;
use std::ffi::OsStr;

use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::pairs::{Pairs, in_branch};
use super::pass_through::{Caller, Listed, Operations, PassThrough, Result};

/// The file system.
pub struct Unionfs {
    below: Pairs,
}

impl Unionfs {
    /// Joins what lies there.
    pub fn new(first: PassThrough, second: PassThrough) -> Self {
        Self { below: Pairs::new(first, second) }
    }
}

/// Does something in both, by their index. It makes no difference that one of them lacks what it is done to.
fn in_both(work: impl Fn(usize) -> Result<()>) -> Result<()> {
    let first = work(0);
    if first.is_err_and(|error| error != Errno::NOENT) {
        return first;
    }
    match work(1) {
        Err(Errno::NOENT) => first,
        second => second,
    }
}

impl Operations for Unionfs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn unlink(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        let parents = self.below.pair(parent)?;
        in_both(|index| in_branch(parents[index], |parent| self.below.branch(index).unlink(caller, parent, name)))
    }

    fn rmdir(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        let parents = self.below.pair(parent)?;
        in_both(|index| in_branch(parents[index], |parent| self.below.branch(index).rmdir(caller, parent, name)))
    }

    fn rename(&self, caller: &Caller, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Result<()> {
        let (from_parents, to_parents) = (self.below.pair(from.0)?, self.below.pair(to.0)?);
        in_both(|index| {
            in_branch(from_parents[index], |from_parent| {
                in_branch(to_parents[index], |to_parent| {
                    self.below.branch(index).rename(caller, (from_parent, from.1), (to_parent, to.1), flags)
                })
            })
        })
    }

    fn list(&self, caller: &Caller, number: u64, handle: u64) -> Result<Vec<Listed>> {
        let mut listed = self.below.list_in(0, caller, number, handle)?;
        let mut names: HashSet<_> = listed.iter().map(|entry| entry.name.clone()).collect();
        let second = self.below.list_in(1, caller, number, handle)?;
        listed.extend(second.into_iter().filter(|entry| names.insert(entry.name.clone())));
        Ok(listed)
    }
}
