//! Locations of objects: their path, their parent, and a symlink's target.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, ResolveFlags};
use vnode::{Caller, Errno, FileKind, Result, VnodeRef, profile};

use super::absolute_paths::absolute_path;
use super::calls::PATH_ONLY;
use super::credentials::AssumedCredentials;
use super::errno;
use super::node::{LookupLocation, Node};
use super::status::Status;

/// Returns the path below the root, as the kernel knows it.
pub(crate) fn path(node: &Node) -> Result<Vec<u8>> {
    if node.is_root() {
        return Ok(Vec::new());
    }
    let thread = &mut node.tree().credentials.thread();
    let descriptor = node.descriptor(thread)?;
    if Status::of_descriptor(&descriptor)?.nlink() == 0 {
        return Err(Errno::ENOENT);
    }
    let path = below_root(node, descriptor.as_fd())?;
    if !path.as_ref().is_some_and(|path| path.ends_with(DELETED)) {
        return path.ok_or(Errno::EOPNOTSUPP);
    }
    // The descriptor remembers a name that has been removed, or has none although the file got one later. A fresh one may
    // have a better name; a file may also really have such a name.
    let fresh = node.open_by_identity(thread, PATH_ONLY)?;
    let path = below_root(node, fresh.as_fd())?.ok_or(Errno::EOPNOTSUPP)?;
    let status = thread.act_as_server()?.status_at(node.tree().root(), &*path);
    if path.ends_with(DELETED) && !status.is_ok_and(|status| node.is_object_of(&status)) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(path)
}

/// The suffix that the kernel appends to the path of an object whose name at open has been removed.
const DELETED: &[u8] = b" (deleted)";

/// Returns the path of an object below the root; `None` if it is elsewhere, or the kernel has no path for it: a file that
/// was opened by handle has a path only while its name is in the kernel's dentry cache.
fn below_root(node: &Node, descriptor: BorrowedFd<'_>) -> Result<Option<Vec<u8>>> {
    Ok(node.tree().path_below_root(&absolute_path(descriptor)?)?.filter(|path| !path.is_empty()))
}

/// Returns the parent of a directory.
pub(crate) fn parent(node: &Node, caller: &Caller) -> Result<VnodeRef> {
    if node.file_kind() != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    if node.is_root() {
        return Ok(profile::vnode(node.reference()));
    }
    let thread = &mut node.tree().credentials.thread();
    let descriptor = node.descriptor(thread)?;
    if Status::of_descriptor(&descriptor)?.nlink() == 0 {
        return Err(Errno::ENOENT);
    }
    if let Some(parent) = node.known_parent() {
        return Ok(profile::vnode(parent));
    }
    let tree = node.tree();
    if tree.attached.as_ref().is_some_and(|attached| attached.is(|status| node.is_object_of(status))) {
        let (root, _) = tree.entry_of(thread, tree.root(), LookupLocation::Unnamed)?;
        return Ok(profile::vnode(root));
    }
    let parent = open_parent(&thread.act_for(caller)?, descriptor.as_fd(), node.tree().root())?;
    let (parent, _) = node.tree().entry_of(thread, parent.as_fd(), LookupLocation::Unnamed)?;
    Ok(profile::vnode(parent))
}

/// Opens the parent of a directory. Whatever is mounted over the root, perhaps our own stack, is not entered.
fn open_parent(acting: &AssumedCredentials<'_>, directory: BorrowedFd<'_>, root: BorrowedFd<'_>) -> Result<OwnedFd> {
    let flags = PATH_ONLY | OFlags::DIRECTORY;
    let within = acting.open_within(directory, c"..", flags, ResolveFlags::NO_XDEV);
    if let Ok(parent) = within {
        return Ok(parent);
    }
    // Either the parent is covered by a mount, or the directory is the root of one.
    let mut above = absolute_path(directory)?;
    above.truncate(above.iter().rposition(|&byte| byte == b'/').unwrap_or(0).max(1));
    if above == absolute_path(root)? {
        return root.try_clone_to_owned().map_err(Errno::from);
    }
    acting.open_at(directory, c"..", flags).map_err(errno)
}

/// Returns the target of a symlink.
pub(crate) fn readlink(node: &Node, _caller: &Caller) -> Result<Vec<u8>> {
    if node.file_kind() != FileKind::Symlink {
        return Err(Errno::EINVAL);
    }
    let descriptor = node.descriptor(&mut node.tree().credentials.thread())?;
    Ok(rustix::fs::readlinkat(&descriptor, c"", Vec::with_capacity(256)).map_err(errno)?.into_bytes())
}
