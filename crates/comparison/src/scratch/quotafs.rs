//! Quotafs refuses to let the files of a user grow by more than so many bytes while it is mounted; what shrinks, or is
//! deleted, counts back. The superuser is free. It counts writing, cutting and deleting, and not all ways to grow, as the
//! description does.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Mutex, PoisonError};

use fuser::{FileAttr, FileType};
use rustix::io::Errno;

use super::pass_through::{Caller, Operations, PassThrough, Result, SetAttributes};

/// The file system.
pub struct Quotafs {
    below: PassThrough,
    limit: i64,
    /// By how much the files of each user grew.
    grown: Mutex<HashMap<u32, i64>>,
}

impl Quotafs {
    /// Shows what lies there, with that limit in bytes.
    pub fn new(below: PassThrough, limit: i64) -> Self {
        Self { below, limit, grown: Mutex::default() }
    }

    /// Counts bytes more, or less, if so many are below the limit.
    fn count(&self, user: u32, more: i64, limit: i64) -> Result<()> {
        let mut grown = self.grown.lock().unwrap_or_else(PoisonError::into_inner);
        let grown = grown.entry(user).or_default();
        if more > 0 && grown.saturating_add(more) > limit {
            return Err(Errno::DQUOT);
        }
        *grown = grown.saturating_add(more);
        Ok(())
    }

    /// Counts bytes for something, or does not if that fails.
    fn counting<T>(&self, user: u32, more: i64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.count(user, more, if user == 0 { i64::MAX } else { self.limit })?;
        let done = work();
        if done.is_err() {
            self.count(user, -more, i64::MAX)?;
        }
        done
    }
}

impl Operations for Quotafs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn write(&self, caller: &Caller, number: u64, handle: u64, offset: u64, data: &[u8]) -> Result<usize> {
        let more = (offset + data.len() as u64) as i64 - self.below.getattr(number)?.size as i64;
        self.counting(caller.user, more.max(0), || self.below.write(caller, number, handle, offset, data))
    }

    fn setattr(&self, caller: &Caller, number: u64, changes: &SetAttributes) -> Result<FileAttr> {
        let Some(size) = changes.size else { return self.below.setattr(caller, number, changes) };
        let now = self.below.getattr(number)?;
        let more = size as i64 - now.size as i64;
        self.counting(now.uid, more, || self.below.setattr(caller, number, changes))
    }

    fn unlink(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        let found = self.below.lookup(caller, parent, name)?;
        let deleted = self.below.unlink(caller, parent, name);
        self.below.forget(found.ino.0, 1);
        if deleted.is_ok() && found.kind == FileType::RegularFile && found.nlink == 1 {
            self.count(found.uid, -(found.size as i64), i64::MAX)?;
        }
        deleted
    }
}
