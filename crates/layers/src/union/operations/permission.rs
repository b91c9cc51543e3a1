//! Permission checks on the original before anything is copied: a caller that may change nothing causes no copies either. The
//! branch of the copy makes the final decision.
//!
//! The checks have Linux's order: what an object cannot have at all comes before who owns it.

use rustix::thread::CapabilitySet;
use vnode::{AccessMode, Attributes, Caller, Errno, FileKind, Result, SetAttributes, SetTime};

use crate::union::branch::xattrs::attribute;
use crate::union::state::Node;

const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

impl Node {
    /// Returns whether this caller's permission to change the object has to be checked: the object would be copied, and nobody
    /// has checked yet.
    pub(crate) fn needs_check(&self, caller: &Caller) -> bool {
        !caller.is_superuser() && !caller.is_admitted_by_kernel() && self.would_be_copied()
    }

    /// Returns whether a change requires a copy, and one can be made; otherwise nothing is copied, and the result of the
    /// operation itself stands.
    pub(crate) fn would_be_copied(&self) -> bool {
        !self.is_writable() && self.union.can_write(&self.leftmost().member)
    }

    fn original(&self) -> Result<Attributes> {
        self.leftmost().vnode.getattr(&Caller::server())
    }

    /// Like [`Node::check_access`], except that if an access control list decides that cannot be consulted, because the
    /// branch is read-only, the decision is left to the branch of the copy.
    fn check_access_or_defer(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        let original = self.leftmost().vnode;
        match self.check_access(caller, mode) {
            Err(Errno::EACCES)
                if original.access(caller, mode) == Err(Errno::EROFS)
                    && attribute(&original, ACCESS_ACL)?.is_some() =>
            {
                Ok(())
            }
            allowed => allowed,
        }
    }

    /// Checks that the caller may create names in this directory.
    pub(crate) fn check_change_names_if_copied(&self, caller: &Caller) -> Result<()> {
        if self.needs_check(caller) { self.check_change_names(caller) } else { Ok(()) }
    }

    /// Like [`Node::check_change_names_if_copied`], even if nothing would be copied.
    pub(crate) fn check_change_names(&self, caller: &Caller) -> Result<()> {
        self.check_access_or_defer(caller, AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits()))
    }

    /// Checks that the caller may remove a name of an object with these attributes from this directory.
    pub(crate) fn check_remove_name_if_copied(&self, caller: &Caller, object: &Attributes) -> Result<()> {
        if self.needs_check(caller) { self.check_remove_name(caller, object) } else { Ok(()) }
    }

    /// Like [`Node::check_remove_name_if_copied`], even if nothing would be copied.
    pub(crate) fn check_remove_name(&self, caller: &Caller, object: &Attributes) -> Result<()> {
        check_removal(caller, &self.original()?, object, || self.check_change_names(caller))
    }

    /// Checks that the caller may make these changes of attributes.
    pub(crate) fn check_setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<()> {
        match self.kind {
            _ if changes.size.is_none() => {}
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        if !self.needs_check(caller) {
            return Ok(());
        }
        if changes.size.is_some() {
            self.check_access_or_defer(caller, AccessMode::WRITE)?;
        }
        let now = self.original()?;
        check_chown(caller, &now, changes)?;
        if changes.mode.is_some() {
            if self.kind == FileKind::Symlink {
                return Err(Errno::EOPNOTSUPP);
            }
            require(is_owner(caller, &now))?;
        }
        let times = [changes.atime, changes.mtime];
        if times == [None, None] || is_owner(caller, &now) {
            return Ok(());
        }
        let is_given = times.iter().flatten().any(|time| !matches!(time, SetTime::Now));
        // Setting both to the present, or with a change of size any to the present, is allowed to everybody who may write.
        require(!is_given && (changes.size.is_some() || !times.contains(&None)))?;
        self.check_access_or_defer(caller, AccessMode::WRITE)
    }

    /// Checks that the caller may set the extended attribute to this value, or remove it (xattr(7)).
    pub(crate) fn check_change_xattr(&self, caller: &Caller, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        const STICKY_BIT: u32 = 0o1000;
        if !self.needs_check(caller) {
            return Ok(());
        }
        let original = self.original()?;
        if name == ACCESS_ACL || name == DEFAULT_ACL {
            check_acl_form(value.unwrap_or_default())?;
            return match self.kind {
                FileKind::Symlink => Err(Errno::EOPNOTSUPP),
                // It has none; everybody may remove that.
                kind if name == DEFAULT_ACL && kind != FileKind::Directory => {
                    if value.is_some_and(|value| !value.is_empty()) { Err(Errno::EACCES) } else { Ok(()) }
                }
                _ => require(is_owner(caller, &original)),
            };
        }
        if name == b"security.capability" {
            let is_own = original.uid == caller.uid;
            let may_of_own = caller.may_give_capabilities(value.unwrap_or_default(), original.uid)
                || caller.may_give_own_files_capabilities();
            return require(is_own && may_of_own);
        }
        if name.starts_with(b"trusted.") || name.starts_with(b"security.") {
            return require(caller.may_administer());
        }
        if name.starts_with(b"system.") {
            return Err(Errno::EOPNOTSUPP);
        }
        if name.starts_with(b"user.") {
            require(matches!(self.kind, FileKind::Regular | FileKind::Directory))?;
            let is_shared = original.is_directory() && original.mode & STICKY_BIT != 0;
            require(!is_shared || is_owner(caller, &original))?;
        }
        self.check_access_or_defer(caller, AccessMode::WRITE)
    }

    /// Checks that the caller may change the flags of chattr(1).
    pub(crate) fn check_set_flags(&self, caller: &Caller) -> Result<()> {
        if self.needs_check(caller) { require(is_owner(caller, &self.original()?)) } else { Ok(()) }
    }
}

/// Checks that the caller may remove a name of an object from a directory, with these attributes.
/// `check_change_names_if_copied` checks write and search permission in that.
pub(crate) fn check_removal(
    caller: &Caller,
    directory: &Attributes,
    object: &Attributes,
    check_change_names_if_copied: impl FnOnce() -> Result<()>,
) -> Result<()> {
    const STICKY_BIT: u32 = 0o1000;
    require(!directory.only_grows_or_stays() && !object.only_grows_or_stays())?;
    check_change_names_if_copied()?;
    let is_shared = directory.mode & STICKY_BIT != 0;
    require(!is_shared || is_owner(caller, directory) || is_owner(caller, object))
}

fn require(may: bool) -> Result<()> {
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

fn has(caller: &Caller, capability: CapabilitySet) -> bool {
    caller.capabilities() & capability.bits() != 0
}

fn is_owner(caller: &Caller, object: &Attributes) -> bool {
    object.uid == caller.uid || has(caller, CapabilitySet::FOWNER)
}

/// Checks that the caller may change the owner or group of an object with these attributes as requested.
fn check_chown(caller: &Caller, now: &Attributes, changes: &SetAttributes) -> Result<()> {
    if changes.uid == Some(u32::MAX) || changes.gid == Some(u32::MAX) {
        return Err(Errno::EINVAL);
    }
    let is_own = caller.uid == now.uid;
    let keeps_owner = changes.uid.is_none_or(|uid| is_own && uid == now.uid);
    let is_own_group = |gid| is_own && (gid == now.gid || caller.is_in_group(gid));
    require(has(caller, CapabilitySet::CHOWN) || (keeps_owner && changes.gid.is_none_or(is_own_group)))
}

/// Checks that a value has the form of an access control list: its version, and entries of eight bytes.
fn check_acl_form(list: &[u8]) -> Result<()> {
    match list.split_first_chunk::<4>() {
        None if list.is_empty() => Ok(()),
        Some((&[2, 0, 0, 0], entries)) if entries.len().is_multiple_of(8) => Ok(()),
        Some((&[2, 0, 0, 0], _)) | None => Err(Errno::EINVAL),
        Some(_) => Err(Errno::EOPNOTSUPP),
    }
}
