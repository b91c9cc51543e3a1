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

use super::credentials::AssumedCredentials;

/// Maximum time to wait until nothing is left in a directory.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// Returns whether a name is one that the kernel gives to removed files (fs/nfs/unlink.c): the file's number and a count, in
/// hexadecimal digits.
pub(crate) fn is_silly_name(name: &[u8]) -> bool {
    const DIGITS: usize = 24;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix(b".nfs").is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(is_digit))
}

/// Removes a directory if it contains nothing but files that are removed already.
pub(crate) fn remove_directory(
    acting: &AssumedCredentials<'_>,
    parent: BorrowedFd<'_>,
    name: &[u8],
) -> rustix::io::Result<()> {
    let end = Instant::now() + RELEASE_TIMEOUT;
    loop {
        match acting.remove_at(parent, name, AtFlags::REMOVEDIR) {
            Err(SystemError::NOTEMPTY)
                if Instant::now() < end && has_only_silly_names(acting, parent, name) == Ok(true) =>
            {
                thread::sleep(RETRY_INTERVAL);
            }
            removed => return removed,
        }
    }
}

fn has_only_silly_names(
    acting: &AssumedCredentials<'_>,
    parent: BorrowedFd<'_>,
    name: &[u8],
) -> rustix::io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for entry in Dir::new(acting.open_at(parent, name, flags)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if ![&b"."[..], b".."].contains(&name) && !is_silly_name(name) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silly_names_are_recognised() {
        assert!(is_silly_name(b".nfs000000000000f00d0000002a"));
        for name in [
            &b".nfs"[..],
            b".nfs000000000000f00d0000002",
            b".nfs000000000000F00D0000002a",
            b"xnfs000000000000f00d0000002a",
        ] {
            assert!(!is_silly_name(name), "{}", name.escape_ascii());
        }
    }
}
