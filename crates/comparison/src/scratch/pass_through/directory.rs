//! Directories that are open below.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::attributes::kind;
use super::{Listed, Result};

/// All names of a directory as it is now.
pub(crate) fn read(directory: &OwnedFd) -> Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let found = match entry.file_type() {
            FileType::Unknown => {
                let status = statat(directory.as_fd(), entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                status.map_or(FileType::Unknown, |status| FileType::from_raw_mode(status.st_mode))
            }
            known => known,
        };
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        listed.push(Listed { number: entry.ino(), kind: kind(found), name });
    }
    Ok(listed)
}
