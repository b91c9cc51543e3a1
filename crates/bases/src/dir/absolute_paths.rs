//! The paths of open objects from the process's root, as the kernel knows them.

use std::os::fd::BorrowedFd;

use procfs::DescriptorPath;
use vnode::Result;

use super::errno;

/// Returns whether the kernel knows a path of the object that is outside the root. It knows none for a file that was opened
/// by handle while no name of it is in its dentry cache, and reports `/`.
pub(crate) fn is_outside_root(root: BorrowedFd<'_>, object: BorrowedFd<'_>) -> Result<bool> {
    let (mut path, root) = (absolute_path(object)?, root_prefix(root)?);
    let unknown = path == b"/";
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    Ok(!unknown && !path.starts_with(&root))
}

/// Returns the path of the root, with a trailing slash.
pub(crate) fn root_prefix(root: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let mut path = absolute_path(root)?;
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    Ok(path)
}

/// Returns the path of an object from the process's root, as the kernel knows it.
pub(crate) fn absolute_path(descriptor: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let link = DescriptorPath::new(descriptor);
    Ok(rustix::fs::readlink(link.as_c_str(), Vec::new()).map_err(errno)?.into_bytes())
}
