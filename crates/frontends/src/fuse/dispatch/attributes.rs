//! Attributes: reading and changing them, access checks, and file system state.

use super::xattrs::FILE_CAPABILITIES;
use super::{Dispatcher, OperationResult, SET_ID, caller};
use crate::fuse::nodes::Node;
use crate::fuse::protocol::convert::{attributes_out, changes_from_wire, statfs_out, statx_out};
use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::request::{Operation, Request};
use crate::fuse::protocol::wire::{self, set_attributes as valid};
use vnode::{AccessMode, Attributes, Caller, Errno, FileKind, Result, SetAttributes};

impl Dispatcher {
    pub(crate) fn attribute_operation(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> OperationResult {
        let node = self.node(request.node)?;
        let caller = caller(request, 0);
        match &request.operation {
            Operation::GetAttributes { handle } => {
                let attributes = self.attributes(&caller, &node, *handle)?;
                reply.put(&attributes_out(&attributes, self.attribute_timeout(&node, &attributes)));
            }
            Operation::Statx(arguments) => {
                let with_handle = arguments.getattr_flags & wire::GETATTR_HANDLE != 0;
                let handle = with_handle.then_some(arguments.handle);
                let attributes = self.attributes(&caller, &node, handle)?;
                reply.put(&statx_out(&attributes, self.attribute_timeout(&node, &attributes)));
            }
            Operation::SetAttributes(set) => {
                let caller = self.admitted_caller(request, 0);
                let attributes = self.set_attributes(request.unique, &caller, &node, set)?;
                if set.valid & valid::SIZE != 0 {
                    self.durability.size_changed(&*node.vnode, &*self.file_system)?;
                }
                reply.put(&attributes_out(&attributes, self.attribute_timeout(&node, &attributes)));
            }
            Operation::Access { mask } => node.vnode.access(&caller, AccessMode::from_bits(*mask))?,
            Operation::StatFs => {
                reply.put(&statfs_out(&node.vnode.statfs(&caller)?));
            }
            _ => return Err(Errno::ENOSYS),
        }
        Ok(())
    }

    /// Returns the attributes of a node. An unlinked object is queried through one of its open files if it can no longer be
    /// reached otherwise.
    fn attributes(&self, caller: &Caller, node: &Node, handle: Option<u64>) -> Result<Attributes> {
        if let Some(opened) = handle.and_then(|handle| self.open_files.get(handle)) {
            return opened.file.getattr(caller);
        }
        match node.vnode.getattr(caller) {
            Err(error @ (Errno::ESTALE | Errno::ENOENT)) => match self.open_files.any_of(node.id) {
                Some(opened) => opened.file.getattr(caller),
                None => Err(error),
            },
            result => result,
        }
    }

    fn set_attributes(
        &self,
        unique: u64,
        caller: &Caller,
        node: &Node,
        set: &wire::SetAttributesIn,
    ) -> Result<Attributes> {
        let mut changes = changes_from_wire(set);
        let truncating;
        let caller = if changes.size.is_some() && (changes.kill_privileges || self.clears_set_id(caller.uid)) {
            changes.kill_privileges = false;
            truncating = caller.clone().killing_privileges();
            &truncating
        } else {
            caller
        };
        changes.kill_privileges |= self.is_chown_without_ids(caller, node, set)?;
        if let Some(mode) = changes.mode
            && self.kernel_clears_set_id()
            && only_clears_set_id(&node.vnode.getattr(&self.server)?, mode)
        {
            changes.mode = None;
            let cleared = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
            self.ignore_refusal_for_writer(node, node.vnode.setattr(&Caller::server_for(caller), &cleared))?;
        }
        if !self.writes_back() || set.valid & valid::CTIME == 0 {
            return self.apply_changes(caller, node, set, changes);
        }
        // The times are the kernel's. It has checked who may set them, and the times that it cached arrive late, in the name
        // of whoever triggers the writeback.
        let times =
            SetAttributes { atime: changes.atime.take(), mtime: changes.mtime.take(), ..SetAttributes::default() };
        if let Some(mtime) = times.mtime {
            self.open_files.record_mtime(node.id, unique, mtime);
        }
        let changed = if changes.is_empty() { None } else { Some(self.apply_changes(caller, node, set, changes)?) };
        match (changed, times.is_empty()) {
            (Some(changed), true) => Ok(changed),
            _ => {
                let changed = self.apply_changes(&Caller::server_for(caller), node, set, times);
                if times.atime.is_some() {
                    // At writeback the kernel sends no access time.
                    return changed;
                }
                match self.ignore_refusal_for_writer(node, changed)? {
                    Some(changed) => Ok(changed),
                    None => self.attributes(caller, node, None),
                }
            }
        }
    }

    /// Returns whether this is a chown(2) without ids, on a program with set-ID bits or capabilities: the kernel leaves it to
    /// the server to clear them, and to check that the caller may. Before a write it sends the same request, and the write
    /// clears them: for callers that may write, nothing changes here.
    ///
    /// # Errors
    /// `EPERM` for a caller that may neither change nor write a program with set-ID bits. Capabilities alone may be cleared by
    /// everybody.
    fn is_chown_without_ids(&self, caller: &Caller, node: &Node, set: &wire::SetAttributesIn) -> Result<bool> {
        const NO_CHANGES: u32 = valid::HANDLE | valid::LOCK_OWNER | valid::CTIME;
        if set.valid & !NO_CHANGES != 0 || node.vnode.kind() != FileKind::Regular {
            return Ok(false);
        }
        let attributes = node.vnode.getattr(&self.server)?;
        if attributes.mode & SET_ID == 0 {
            let is_written = self.open_files.has_writers(node.id);
            Ok(!is_written && node.vnode.getxattr(&self.server, FILE_CAPABILITIES).is_ok())
        } else if caller.is_superuser() || caller.uid == attributes.uid {
            Ok(true)
        } else if self.may_write(caller, node) {
            Ok(false)
        } else {
            Err(Errno::EPERM)
        }
    }

    fn apply_changes(
        &self,
        caller: &Caller,
        node: &Node,
        set: &wire::SetAttributesIn,
        mut changes: SetAttributes,
    ) -> Result<Attributes> {
        let handle = (set.valid & valid::HANDLE != 0).then_some(set.handle);
        // A file open for writing allows truncation whatever the mode is now; one that is opened for reading and truncated by
        // that open does not.
        let writable = handle.and_then(|handle| self.open_files.get(handle)).filter(|opened| opened.writes);
        if let (Some(size), Some(opened)) = (changes.size, writable) {
            opened.file.truncate(caller, size)?;
            changes.size = None;
        }
        if changes.is_empty() {
            return self.attributes(caller, node, handle);
        }
        let changed = node.vnode.setattr(caller, &changes);
        let mode_changed = changes.mode.is_some() && node.vnode.kind() == FileKind::Directory;
        // Also after a failure, which may have occurred after the change.
        let protects_symlinks = changes.mode.is_some_and(|mode| self.protects_symlinks(mode));
        if mode_changed && (self.name_cache_policy.refresh(node) || protects_symlinks) {
            self.expire_private_names(node);
        }
        changed
    }
}

/// Returns whether a change to this mode clears set-ID bits of a regular file and does nothing else.
fn only_clears_set_id(attributes: &Attributes, mode: u32) -> bool {
    let cleared = attributes.mode & 0o7777 & !mode;
    let is_file = attributes.kind == FileKind::Regular;
    is_file && mode & !attributes.mode == 0 && cleared != 0 && cleared & !SET_ID == 0
}
