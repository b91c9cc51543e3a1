//! Versionfs keeps the last versions of each file: every time that it is opened to be written, what it held becomes
//! NAME.~1~, that which was there before NAME.~2~, and so on.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fuser::{FileAttr, FileType};
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::copy::copy_file;
use super::pass_through::{Caller, Operations, PassThrough, Result};

/// The most versions that can be kept: a digit's.
const VERSIONS_MAX: u32 = 9;

/// The file system.
pub struct Versionfs {
    below: PassThrough,
    versions: u32,
    /// The directory and the name by which each object was found last.
    names: Mutex<HashMap<u64, (u64, OsString)>>,
}

fn version(name: &OsStr, number: u32) -> OsString {
    let mut version = name.to_owned();
    version.push(format!(".~{number}~"));
    version
}

fn is_version(name: &OsStr) -> bool {
    matches!(name.as_bytes(), [_, .., b'.', b'~', _, b'~'])
}

impl Versionfs {
    /// Shows what lies there, and keeps so many versions.
    pub fn new(below: PassThrough, versions: u32) -> Self {
        Self { below, versions: versions.min(VERSIONS_MAX), names: Mutex::default() }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<u64, (u64, OsString)>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, found: &FileAttr, parent: u64, name: &OsStr) {
        if found.kind == FileType::RegularFile {
            self.names().insert(found.ino.0, (parent, name.to_owned()));
        }
    }

    /// Copies what a file holds to its first version; those that there are become older.
    fn keep(&self, caller: &Caller, file: &FileAttr, parent: u64, name: &OsStr) -> Result<()> {
        let is_worth_it = file.kind == FileType::RegularFile && file.size > 0 && !is_version(name);
        if !is_worth_it || self.versions == 0 {
            return Ok(());
        }
        for number in (1..self.versions).rev() {
            let (from, to) = (version(name, number), version(name, number + 1));
            match self.below.rename(caller, (parent, &from), (parent, &to), RenameFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        copy_file(&self.below, caller, file.ino.0, parent, &version(name, 1))
    }
}

impl Operations for Versionfs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn lookup(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<FileAttr> {
        self.below.lookup(caller, parent, name).inspect(|found| self.remember(found, parent, name))
    }

    fn link(&self, caller: &Caller, number: u64, parent: u64, name: &OsStr) -> Result<FileAttr> {
        self.below.link(caller, number, parent, name).inspect(|found| self.remember(found, parent, name))
    }

    fn create(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, flags: i32) -> Result<(FileAttr, u64)> {
        self.below.create(caller, parent, name, mode, flags).inspect(|(made, _)| self.remember(made, parent, name))
    }

    fn forget(&self, number: u64, lookups: u64) {
        self.below.forget(number, lookups);
        if self.below.node(number).is_err() {
            self.names().remove(&number);
        }
    }

    fn open(&self, caller: &Caller, number: u64, flags: i32) -> Result<u64> {
        let file = self.below.getattr(number)?;
        let known = self.names().get(&number).filter(|_| file.nlink > 0).cloned();
        if let Some((parent, name)) = known
            && flags & libc::O_ACCMODE != libc::O_RDONLY
        {
            self.keep(caller, &file, parent, &name)?;
        }
        self.below.open(caller, number, flags)
    }

    fn rename(&self, caller: &Caller, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Result<()> {
        match self.below.lookup(caller, to.0, to.1) {
            Ok(replaced) => {
                let kept = self.keep(caller, &replaced, to.0, to.1);
                self.below.forget(replaced.ino.0, 1);
                kept?;
            }
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        self.below.rename(caller, from, to, flags)
    }
}
