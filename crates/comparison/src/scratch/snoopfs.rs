//! Snoopfs tells of users who try to reach files of others.

use std::ffi::OsStr;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use fuser::FileAttr;
use rustix::io::Errno;

use super::pass_through::{Caller, Operations, PassThrough, Result};

/// The file system.
pub struct Snoopfs {
    below: PassThrough,
    log: Mutex<Box<dyn Write + Send>>,
}

impl Snoopfs {
    /// Shows what lies there, and tells of users in a log.
    pub fn new(below: PassThrough, log: impl Write + Send + 'static) -> Self {
        Self { below, log: Mutex::new(Box::new(log)) }
    }

    /// Whether a name stands for what is the caller's.
    fn is_own(&self, caller: &Caller, parent: u64, name: &OsStr) -> bool {
        let Ok(found) = self.below.lookup(&Caller::SERVER, parent, name) else { return false };
        self.below.forget(found.ino.0, 1);
        found.uid == caller.user
    }
}

impl Operations for Snoopfs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn lookup(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<FileAttr> {
        let found = self.below.lookup(caller, parent, name);
        if let Err(Errno::PERM | Errno::ACCESS | Errno::NOENT) = found
            && caller.user != 0
            && !self.is_own(caller, parent, name)
        {
            let Caller { user, process, .. } = caller;
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            // What cannot be told is lost.
            let _ = writeln!(log, "snoopfs detected access by uid {user},pid {process}, to file {}", name.display());
        }
        found
    }
}
