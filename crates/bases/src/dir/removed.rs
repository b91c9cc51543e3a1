//! Files removed on NFS while open: they stay in their directory under a name of the client's (`.nfs…`) until they are
//! closed.
//!
//! Such names are not listed. A directory that contains nothing else can be removed: a file is closed a moment after its
//! program has closed it, and removal waits for that.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, OFlags};
use rustix::io::Errno as SystemError;

use super::credentials::Acting;

/// Maximum time to wait until nothing is left in a directory.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(2);

/// Returns whether a name is one that the kernel gives to removed files (fs/nfs/unlink.c): the file's number and a count, in
/// hexadecimal digits.
pub(crate) fn is_name_of_removed(name: &[u8]) -> bool {
    const DIGITS: usize = 24;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix(b".nfs").is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(is_digit))
}

/// Removes a directory if it contains nothing but files that are removed already.
pub(crate) fn remove_directory(acting: &Acting<'_>, parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match acting.remove_at(parent, name, AtFlags::REMOVEDIR) {
            Err(SystemError::NOTEMPTY) if Instant::now() < end && shows_nothing(acting, parent, name) == Ok(true) => {
                thread::sleep(PAUSE);
            }
            removed => return removed,
        }
    }
}

fn shows_nothing(acting: &Acting<'_>, parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for entry in Dir::new(acting.open_at(parent, name, flags)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if ![&b"."[..], b".."].contains(&name) && !is_name_of_removed(name) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_removed_are_told_from_others() {
        assert!(is_name_of_removed(b".nfs000000000000f00d0000002a"));
        for name in [
            &b".nfs"[..],
            b".nfs000000000000f00d0000002",
            b".nfs000000000000F00D0000002a",
            b"xnfs000000000000f00d0000002a",
        ] {
            assert!(!is_name_of_removed(name), "{}", name.escape_ascii());
        }
    }
}
