//! The paths of open objects from the process's root, as the kernel knows them.

use std::os::fd::BorrowedFd;

use procfs::DescriptorPath;
use vnode::Result;

use super::errno;

/// Returns the rest of an absolute path below a directory; empty for the directory itself, `None` if it leads elsewhere.
pub(crate) fn below<'a>(absolute: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    match absolute.strip_prefix(directory)? {
        [] => Some(b""),
        [b'/', rest @ ..] => Some(rest),
        // Only that of the root ends with a slash.
        rest => directory.ends_with(b"/").then_some(rest),
    }
}

/// Returns the path of an object from the process's root, as the kernel knows it.
pub(crate) fn absolute_path(descriptor: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let link = DescriptorPath::new(descriptor);
    Ok(rustix::fs::readlink(link.as_c_str(), Vec::new()).map_err(errno)?.into_bytes())
}
