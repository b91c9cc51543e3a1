//! Usenetfs breaks large flat directories of articles, whose names are numbers, into a thousand small ones, by the last
//! three digits. A directory is managed so if its set-user-id bit is set while it is empty.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fuser::{FileAttr, FileType};
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::pass_through::{Caller, Listed, Operations, PassThrough, Result};

/// The bit of a directory that is managed.
const MANAGED: u16 = libc::S_ISUID as u16;
/// The digits that name the directory of an article.
const DIGITS: usize = 3;

/// The file system.
pub struct Usenetfs {
    below: PassThrough,
}

fn is_number(name: &OsStr) -> bool {
    name.as_bytes().iter().all(u8::is_ascii_digit)
}

/// The name of an article's directory.
fn bucket(name: &OsStr) -> OsString {
    let digits = name.as_bytes();
    let last = &digits[digits.len().saturating_sub(DIGITS)..];
    OsStr::from_bytes(&[&b"000"[last.len()..], last].concat()).to_owned()
}

impl Usenetfs {
    /// Shows what lies there.
    pub fn new(below: PassThrough) -> Self {
        Self { below }
    }

    fn is_article(&self, directory: u64, name: &OsStr) -> Result<bool> {
        Ok(is_number(name) && self.below.getattr(directory)?.perm & MANAGED != 0)
    }

    /// Does something in the directory where a name is below.
    fn within<T>(&self, caller: &Caller, parent: u64, name: &OsStr, work: impl FnOnce(u64) -> Result<T>) -> Result<T> {
        if !self.is_article(parent, name)? {
            return work(parent);
        }
        self.in_bucket(self.below.lookup(caller, parent, &bucket(name))?, work)
    }

    /// As [`Self::within`] for what makes the name: the directory of an article is made first.
    fn make<T>(&self, caller: &Caller, parent: u64, name: &OsStr, work: impl FnOnce(u64) -> Result<T>) -> Result<T> {
        if self.is_article(parent, name)? {
            let mode = u32::from(self.below.getattr(parent)?.perm) & 0o777;
            match self.below.mkdir(caller, parent, &bucket(name), mode) {
                Ok(made) => self.below.forget(made.ino.0, 1),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        self.within(caller, parent, name, work)
    }

    fn in_bucket<T>(&self, bucket: FileAttr, work: impl FnOnce(u64) -> Result<T>) -> Result<T> {
        let done = work(bucket.ino.0);
        self.below.forget(bucket.ino.0, 1);
        done
    }

    /// The articles that one of the small directories has.
    fn articles(&self, caller: &Caller, parent: u64, bucket: &OsStr) -> Result<Vec<Listed>> {
        self.in_bucket(self.below.lookup(caller, parent, bucket)?, |bucket| {
            let handle = self.below.opendir(caller, bucket)?;
            let listed = self.below.list(caller, bucket, handle);
            self.below.releasedir(handle);
            Ok(listed?.into_iter().filter(|entry| entry.name != "." && entry.name != "..").collect())
        })
    }
}

impl Operations for Usenetfs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn lookup(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<FileAttr> {
        self.within(caller, parent, name, |directory| self.below.lookup(caller, directory, name))
    }

    fn mknod(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, device: u32) -> Result<FileAttr> {
        self.make(caller, parent, name, |directory| self.below.mknod(caller, directory, name, mode, device))
    }

    fn mkdir(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32) -> Result<FileAttr> {
        self.make(caller, parent, name, |directory| self.below.mkdir(caller, directory, name, mode))
    }

    fn symlink(&self, caller: &Caller, parent: u64, name: &OsStr, target: &Path) -> Result<FileAttr> {
        self.make(caller, parent, name, |directory| self.below.symlink(caller, directory, name, target))
    }

    fn link(&self, caller: &Caller, number: u64, parent: u64, name: &OsStr) -> Result<FileAttr> {
        self.make(caller, parent, name, |directory| self.below.link(caller, number, directory, name))
    }

    fn create(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, flags: i32) -> Result<(FileAttr, u64)> {
        self.make(caller, parent, name, |directory| self.below.create(caller, directory, name, mode, flags))
    }

    fn unlink(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        self.within(caller, parent, name, |directory| self.below.unlink(caller, directory, name))
    }

    fn rmdir(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        self.within(caller, parent, name, |directory| self.below.rmdir(caller, directory, name))
    }

    fn rename(&self, caller: &Caller, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Result<()> {
        // Programs copy what cannot be renamed.
        if self.is_article(from.0, from.1)? || self.is_article(to.0, to.1)? {
            return Err(Errno::XDEV);
        }
        self.below.rename(caller, from, to, flags)
    }

    fn list(&self, caller: &Caller, number: u64, handle: u64) -> Result<Vec<Listed>> {
        let listed = self.below.list(caller, number, handle)?;
        if self.below.getattr(number)?.perm & MANAGED == 0 {
            return Ok(listed);
        }
        let (numbers, mut others): (Vec<_>, Vec<_>) = listed.into_iter().partition(|entry| is_number(&entry.name));
        for bucket in numbers {
            if bucket.kind == FileType::Directory && bucket.name.len() == DIGITS {
                others.extend(self.articles(caller, number, &bucket.name)?);
            }
        }
        Ok(others)
    }
}
