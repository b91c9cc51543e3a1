//! Guards against what the kernel does without a request, on mounts that let others in while the kernel checks no permissions:
//! these operations are refused beforehand.
//!
//! The kernel opens pipes and devices and connects to sockets whose names it has been given, follows symlinks by their
//! targets, and removes capabilities from files whose owner or data somebody merely tries to change.

use super::Dispatcher;
use crate::fuse::nodes::Node;
use std::sync::atomic::Ordering;
use vnode::{AccessMode, Caller, Entry, Errno, FileKind, Name, Result};

/// The treatment of a name that is returned to the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameGuard {
    /// No special treatment.
    None,
    /// The kernel must look it up each time: the next caller may not be permitted.
    AlwaysRevalidate,
    /// As `AlwaysRevalidate`, for a symlink whose node gets the state bit [`FOLLOW_BY_OWNER_ONLY`].
    FollowByOwnerOnly,
}

/// In the state bits of a symlink: it is in a sticky directory that is writable for everybody and has a different owner
/// than the symlink, so that only the symlink's owner may follow it.
pub(crate) const FOLLOW_BY_OWNER_ONLY: u64 = 1;

/// The switch for symlink protection, see proc_sys_fs(5).
const PROTECTED_SYMLINKS: &str = "fs/protected_symlinks";

impl Dispatcher {
    /// Returns whether objects of this kind are guarded in this mount.
    pub(crate) fn is_guarded(&self, kind: FileKind) -> bool {
        self.decisions().guards_others() && !matches!(kind, FileKind::Regular | FileKind::Directory)
    }

    /// Returns the treatment of a name in `parent`, whether it was looked up, created or moved there.
    pub(crate) fn name_guard(&self, parent: &Node, entry: &Entry) -> NameGuard {
        let kind = entry.vnode.kind();
        if !self.is_guarded(kind) {
            NameGuard::None
        } else if kind != FileKind::Symlink {
            NameGuard::AlwaysRevalidate
        } else {
            match parent.vnode.getattr(&self.server) {
                Ok(directory) if !is_sticky_and_world_writable(directory.mode) => NameGuard::None,
                Ok(directory) if directory.uid == entry.attributes.uid => NameGuard::AlwaysRevalidate,
                _ => NameGuard::FollowByOwnerOnly,
            }
        }
    }

    /// Checks whether a caller may have the object that it has looked up by name.
    ///
    /// # Errors
    /// `EACCES` for a pipe, socket or device that the caller may not both read and write.
    pub(crate) fn check_lookup_access(&self, caller: &Caller, entry: &Entry) -> Result<()> {
        let kind = entry.vnode.kind();
        if !self.is_guarded(kind) || kind == FileKind::Symlink {
            return Ok(());
        }
        let both = AccessMode::from_bits(AccessMode::READ.bits() | AccessMode::WRITE.bits());
        match entry.vnode.access(caller, both) {
            Err(Errno::EROFS) => entry.vnode.access(caller, AccessMode::READ),
            admitted => admitted,
        }
    }

    /// Handles a name that was moved to a directory: the kernel moves its dentry along, so that nobody looks it up there.
    pub(crate) fn guard_renamed(&self, directory: &Node, name: &[u8]) {
        let is_sticky =
            || directory.vnode.getattr(&self.server).is_ok_and(|found| is_sticky_and_world_writable(found.mode));
        if self.is_guarded(FileKind::Symlink)
            && is_sticky()
            && let Ok(name) = Name::new(name)
            && let Ok(entry) = directory.vnode.lookup(&self.server, name)
            && self.name_guard(directory, &entry) == NameGuard::FollowByOwnerOnly
            && let Some(node) = self.nodes.id_of(&entry.vnode.handle()).and_then(|id| self.nodes.get(id))
        {
            node.state_bits.store(FOLLOW_BY_OWNER_ONLY, Ordering::Release);
        }
    }

    /// Returns whether a directory that gets this mode protects the symlinks in it; the kernel may have cached their names
    /// before.
    pub(crate) fn protects_symlinks(&self, mode: u32) -> bool {
        self.is_guarded(FileKind::Symlink) && is_sticky_and_world_writable(mode)
    }

    /// Checks whether a caller may read a symlink.
    ///
    /// # Errors
    /// `EACCES` for another user's symlink in a sticky directory, which is what the kernel returns to a caller that follows
    /// it.
    pub(crate) fn check_symlink_access(&self, caller: &Caller, node: &Node) -> Result<()> {
        let is_protected = self.is_guarded(FileKind::Symlink)
            && node.state_bits.load(Ordering::Acquire) & FOLLOW_BY_OWNER_ONLY != 0
            && node.vnode.getattr(&self.server)?.uid != caller.uid
            && procfs::parameter(PROTECTED_SYMLINKS).is_some_and(|switch| switch != "0");
        if is_protected { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// Returns whether to remove a file's capabilities as the kernel requests. It requests that for callers that write to the
    /// file, for those that may remove them by name, and for those that change its owner or size, before it knows whether they
    /// may: the change itself removes them below, unless it is refused.
    pub(crate) fn may_remove_capabilities(&self, caller: &Caller, node: &Node) -> Result<bool> {
        Ok(caller.is_superuser()
            || self.open_files.has_writers(node.id)
            || (caller.may_give_own_files_capabilities() && node.vnode.getattr(&self.server)?.uid == caller.uid))
    }

    /// Filters the result of a change that the kernel requests on its own, for a caller that writes, or for one that requests
    /// it by name; the kernel does not say which. Returns `None` if a rule of the stack refuses it, and the file is open for
    /// writing: the writer was permitted to write, and what has to change with the data is changed below.
    pub(crate) fn ignore_refusal_for_writer<T>(&self, node: &Node, changed: Result<T>) -> Result<Option<T>> {
        match changed {
            Err(Errno::EPERM | Errno::EACCES) if self.open_files.has_writers(node.id) => Ok(None),
            changed => changed.map(Some),
        }
    }

    /// Returns whether a caller that the kernel has not checked may write to a file, and so clear its set-ID bits.
    pub(crate) fn may_write(&self, caller: &Caller, node: &Node) -> bool {
        self.open_files.has_writers(node.id) || node.vnode.access(caller, AccessMode::WRITE).is_ok()
    }
}

fn is_sticky_and_world_writable(mode: u32) -> bool {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o002;
    mode & (STICKY | OTHERS_WRITE) == STICKY | OTHERS_WRITE
}
