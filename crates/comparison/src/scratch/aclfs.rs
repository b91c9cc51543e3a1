//! Aclfs lets one more user and one more group search a directory as its owner and group do. Whose they are is in a
//! hidden file .acl, which the directory's owner writes by an ioctl. It is meant to be mounted over what it shows.

use std::ffi::OsStr;

use fuser::FileAttr;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, pread, pwrite};

use super::pass_through::{Caller, Listed, Operations, PassThrough, Result, write_command};

/// The file of a directory that says who may search it: a user and a group, each an `int`.
const LIST: &str = ".acl";
/// The bytes of it.
const LIST_BYTES: usize = 8;

/// The file system.
pub struct Aclfs {
    below: PassThrough,
}

impl Aclfs {
    /// Shows what lies there.
    pub fn new(below: PassThrough) -> Self {
        Self { below }
    }

    /// Whether the list of a directory, if it has one of its owner's, lets the caller search it. The file system reads it itself.
    fn is_listed(&self, caller: &Caller, directory: u64) -> Result<bool> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let directory = self.below.node(directory)?;
        let list = openat(&directory, LIST, flags, Mode::empty())?;
        let (status, owner) = (fstat(&list)?, fstat(&directory)?.st_uid);
        let is_whole = FileType::from_raw_mode(status.st_mode).is_file() && status.st_size == LIST_BYTES as i64;
        if !is_whole || status.st_uid != owner {
            return Ok(false);
        }
        let mut numbers = [[0; 4]; 2];
        pread(&list, numbers.as_flattened_mut(), 0)?;
        let [user, group] = numbers.map(u32::from_ne_bytes);
        Ok(caller.user == user || caller.group == group)
    }
}

impl Operations for Aclfs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn lookup(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<FileAttr> {
        let directory = self.below.getattr(parent)?;
        if name == LIST && directory.uid != caller.user {
            return Err(Errno::NOENT);
        }
        match self.below.lookup(caller, parent, name) {
            Err(Errno::ACCESS) if self.is_listed(caller, parent).unwrap_or(false) => {
                let owner = Caller { user: directory.uid, group: directory.gid, ..Caller::SERVER };
                self.below.lookup(&owner, parent, name)
            }
            found => found,
        }
    }

    fn list(&self, caller: &Caller, number: u64, handle: u64) -> Result<Vec<Listed>> {
        let mut listed = self.below.list(caller, number, handle)?;
        listed.retain(|entry| entry.name != LIST);
        Ok(listed)
    }

    fn ioctl(&self, caller: &Caller, number: u64, command: u32, data: &[u8]) -> Result<Vec<u8>> {
        if command != write_command(LIST_BYTES) {
            return self.below.ioctl(caller, number, command, data);
        }
        if self.below.getattr(number)?.uid != caller.user {
            return Err(Errno::PERM);
        }
        let _acting = caller.act()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let list = openat(&self.below.node(number)?, LIST, flags, Mode::RUSR | Mode::WUSR)?;
        pwrite(&list, data, 0)?;
        Ok(Vec::new())
    }
}
