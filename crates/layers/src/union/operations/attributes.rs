//! Attributes as users see them, and their changes.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{
    AccessMode, Attributes, Caller, Entry, Errno, FileKind, Name, Result, SetAttributes, VnodeRef, XattrMode, profile,
};

use crate::union::branch::identity::UNCOUNTED_NAMES;
use crate::union::branch::{whiteout, xattrs};
use crate::union::copy_up::extent::DataExtent;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation};

impl Node {
    /// User-visible form of the leftmost instance's attributes.
    pub(crate) fn visible_attributes(&self, mut attributes: Attributes) -> Attributes {
        attributes.ino = self.identity.ino;
        if self.kind == FileKind::Directory && self.instances().len() > 1 {
            // Nobody has counted the subdirectories of all instances together: find(1) and others know that a link count of 1
            // says nothing.
            attributes.nlink = 1;
        }
        let names = self.original_names.load(Ordering::Relaxed);
        if names != UNCOUNTED_NAMES {
            // The names that lead to the original replace the one in the links directory.
            attributes.nlink = attributes.nlink.saturating_add(names).saturating_sub(1);
        }
        if self.is_hidden.load(Ordering::Relaxed) {
            attributes.nlink = 0;
        }
        // A metadata-only copy has the space that its data take. A file that has all data takes no less than its size.
        const BLOCK_BYTES: u64 = 512;
        if self.kind == FileKind::Regular
            && attributes.blocks.saturating_mul(BLOCK_BYTES) < attributes.size
            && let Ok(Some(data)) = self.data_instance()
            && let Ok(there) = data.vnode.getattr(&Caller::server())
        {
            attributes.blocks = there.blocks;
        }
        attributes
    }

    /// The entry for a look-up.
    pub(crate) fn entry(self: Arc<Self>, attributes: Attributes) -> Entry {
        let attributes = self.visible_attributes(attributes);
        Entry { vnode: profile::vnode(self), attributes }
    }

    /// The present attributes.
    pub(crate) fn attributes(&self, caller: &Caller) -> Result<Attributes> {
        let Instance { member, vnode, .. } = self.leftmost();
        let attributes = vnode.getattr(caller).map_err(|error| member.reported_error(error))?;
        if attributes.nlink == 0 && self.kind == FileKind::Directory {
            member.verify_absence()?;
        }
        Ok(self.visible_attributes(attributes))
    }

    /// Records that the name there is gone. An object with other names is at one of those.
    pub(crate) fn record_name_removed(&self, directory: &Node, stored: Name<'_>) {
        if self.forget_name(directory, stored) && !self.has_names() {
            self.set_location(NodeLocation::Nowhere);
        }
    }

    /// Returns whether names lead to it, known or not; also `true` on errors, since an object without names is not copied.
    fn has_names(&self) -> bool {
        self.kind != FileKind::Directory
            && !self.is_hidden.load(Ordering::Relaxed)
            && self.attributes(&Caller::server()).map_or(true, |attributes| attributes.nlink > 0)
    }

    /// Changes the attributes, in a copy if the branch must not be changed.
    pub(crate) fn set_attributes(self: &Arc<Self>, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        if !self.is_writable() && changes.mode.is_some() && self.kind == FileKind::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        self.check_setattr(caller, changes)?;
        if changes.size.is_some() && self.is_metadata_only()? {
            // Data that are filled in or removed on the way are handled as the server.
            self.check_access(caller, AccessMode::WRITE)?;
        }
        let Some(size) = changes.size else {
            let (_object, instance) = self.writable_guarded(caller, DataExtent::Nothing)?;
            let attributes = instance.vnode.setattr(caller, changes)?;
            self.set_attributes_of_hidden_copies(caller, changes);
            return Ok(self.visible_attributes(attributes));
        };
        // A copy of that length already shows the pending truncation.
        let (setter, done) = (caller.uncancelled(), Cell::default());
        let truncate_step =
            |copy: &VnodeRef| copy.setattr(&setter, changes).map(|now| done.set(Some((copy.handle(), now))));
        let (_object, instance) = self.writable_to_truncate_guarded(caller, size, &truncate_step)?;
        let attributes = match done.take().filter(|(copy, _)| *copy == instance.vnode.handle()) {
            // The change is made, whether the attributes can be read or not.
            Some((_, then)) => instance.vnode.getattr(&Caller::server()).unwrap_or(then),
            None => instance.vnode.setattr(&setter, changes)?,
        };
        Ok(self.visible_attributes(attributes))
    }

    /// Checks that the caller has this access.
    pub(crate) fn check_access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        let instance = self.leftmost();
        let special = !matches!(self.kind, FileKind::Regular | FileKind::Directory | FileKind::Symlink);
        match instance.vnode.access(caller, mode) {
            // The branch is read-only, but a copy could be written; the error does not say whether by this caller.
            Err(Errno::EROFS) if !special => check_mode_bits(&instance.vnode, caller, mode)?,
            allowed => allowed?,
        }
        if mode.contains(AccessMode::WRITE) && !special && !self.union.can_write(&instance.member) {
            return Err(Errno::EROFS);
        }
        Ok(())
    }

    /// Value of an extended attribute.
    pub(crate) fn xattr(self: &Arc<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        if let Some(value) = self.mergerfs_attribute(name) {
            return value;
        }
        let stored = whiteout::stored_attribute(name).ok_or(Errno::ENODATA)?;
        self.leftmost().vnode.getxattr(caller, &stored)
    }

    /// Sets an extended attribute.
    pub(crate) fn set_xattr(
        self: &Arc<Self>,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        if self.is_mergerfs_attribute(name) {
            return Err(Errno::EPERM);
        }
        let stored = whiteout::stored_attribute(name).ok_or(Errno::EPERM)?;
        self.check_change_xattr(caller, name, Some(value))?;
        // No copy is made if the flag then refuses the change. Other attributes are validated first, or set regardless of it,
        // and an object that cannot have them reports so itself.
        let is_plain = name.starts_with(b"user.") || name.starts_with(b"trusted.");
        let may_have_it = is_plain && matches!(self.kind, FileKind::Regular | FileKind::Directory);
        if !self.is_writable() && mode != XattrMode::Set && may_have_it {
            match (mode, self.xattr(&Caller::server(), name)) {
                (XattrMode::Create, Ok(_)) => return Err(Errno::EEXIST),
                (XattrMode::Replace, Err(Errno::ENODATA)) => return Err(Errno::ENODATA),
                _ => {}
            }
        }
        // A capability that a write removes from a file could not be restored atomically.
        let extent = if name == b"security.capability" { DataExtent::All } else { DataExtent::Nothing };
        let (_object, instance) = self.writable_guarded(caller, extent)?;
        instance.vnode.setxattr(caller, &stored, value, mode)?;
        self.change_hidden_copies(|copy| copy.setxattr(caller, &stored, value, XattrMode::Set));
        Ok(())
    }

    /// Removes an extended attribute.
    pub(crate) fn remove_xattr(self: &Arc<Self>, caller: &Caller, name: &[u8]) -> Result<()> {
        if self.is_mergerfs_attribute(name) {
            return Err(Errno::EPERM);
        }
        let stored = whiteout::stored_attribute(name).ok_or(Errno::ENODATA)?;
        let leftmost = self.leftmost();
        if !self.is_writable() && self.xattr(&Caller::server(), name) == Err(Errno::ENODATA) {
            // No copy is made in vain. The branch has nothing to remove either, but reports the proper error.
            return match leftmost.vnode.removexattr(caller, &stored) {
                Err(Errno::EROFS) => Err(Errno::ENODATA),
                result => result,
            };
        }
        self.check_change_xattr(caller, name, None)?;
        let (_object, instance) = self.writable_guarded(caller, DataExtent::Nothing)?;
        instance.vnode.removexattr(caller, &stored)?;
        self.change_hidden_copies(|copy| copy.removexattr(caller, &stored));
        Ok(())
    }

    /// Names of the extended attributes that are not the union's own.
    pub(crate) fn xattr_names(&self, caller: &Caller) -> Result<Vec<u8>> {
        Ok(whiteout::shown_attributes(&self.leftmost().vnode.listxattr(caller)?))
    }
}

/// Checks that the permission bits of an object on a read-only file system allow the caller this access. If it has an access
/// control list, which is not consulted, only the owner and the superuser may write.
fn check_mode_bits(object: &VnodeRef, caller: &Caller, mode: AccessMode) -> Result<()> {
    const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
    let attributes = object.getattr(caller)?;
    let is_owner = caller.uid == attributes.uid;
    let bits = if caller.is_superuser() || (is_owner && caller.is_admitted_by_kernel()) {
        let executable = attributes.is_directory() || attributes.mode & 0o111 != 0;
        0o6 | u32::from(executable)
    } else if is_owner {
        attributes.mode >> 6
    } else if xattrs::attribute(object, ACCESS_ACL)?.is_some() {
        0
    } else if caller.is_in_group(attributes.gid) {
        attributes.mode >> 3
    } else {
        attributes.mode
    };
    if bits & mode.bits() == mode.bits() { Ok(()) } else { Err(Errno::EACCES) }
}
