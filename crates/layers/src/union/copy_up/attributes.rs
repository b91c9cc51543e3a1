//! Attributes of copies: owner, permissions, access control lists, extended attributes and times.

use vnode::{Attributes, Caller, Errno, FileKind, Result, SetAttributes, SetTime, VnodeRef, XattrMode};

use super::super::settings::Rights;
use super::super::whiteout;

/// Gives a copy extended attributes and times of the original, and unless it has others, its owner, access control lists
/// and permissions, in an order in which none undoes another. The writer is the server, at the expense of whoever needs the copy.
pub(in super::super) fn copy_attributes(
    writer: &Caller,
    original: &VnodeRef,
    copy: &VnodeRef,
    rights: Option<Rights>,
) -> Result<()> {
    let server = Caller::server();
    let attributes = original.getattr(&server)?;
    let (uid, gid) = rights.map_or((attributes.uid, attributes.gid), |rights| (rights.uid, rights.gid));
    set_owner(writer, copy, uid, gid)?;
    copy_xattrs(writer, original, copy, rights.is_none())?;
    let mode = match (attributes.kind, rights) {
        (FileKind::Symlink, _) => None,
        (_, None) => Some(attributes.mode),
        (FileKind::Directory, Some(rights)) => Some(rights.directory_mode()),
        (_, Some(rights)) => Some(rights.mode),
    };
    copy.setattr(&server, &SetAttributes { mode, ..times_of(&attributes) }).map(drop)
}

/// Gives a directory owner, mode and access control lists of another instance, if they differ.
pub(super) fn copy_rights(writer: &Caller, from: &VnodeRef, to: &VnodeRef) -> Result<()> {
    let server = Caller::server();
    let (wanted, present) = (from.getattr(&server)?, to.getattr(&server)?);
    if (wanted.uid, wanted.gid) != (present.uid, present.gid) {
        set_owner(writer, to, wanted.uid, wanted.gid)?;
    }
    for list in [&b"system.posix_acl_access"[..], b"system.posix_acl_default"] {
        let value = |object: &VnodeRef| match object.getxattr(&server, list) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        };
        match (value(from)?, value(to)?) {
            (wanted, present) if wanted == present => {}
            (Some(wanted), _) => to.setxattr(writer, list, &wanted, XattrMode::Set)?,
            (None, _) => to.removexattr(&server, list)?,
        }
    }
    if to.getattr(&server)?.mode != wanted.mode {
        to.setattr(&server, &SetAttributes { mode: Some(wanted.mode), ..SetAttributes::default() })?;
    }
    Ok(())
}

fn set_owner(writer: &Caller, object: &VnodeRef, uid: u32, gid: u32) -> Result<()> {
    let owner = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
    match object.setattr(writer, &owner) {
        // A server that is no superuser owns all that it makes.
        Err(Errno::EPERM) if !rustix::process::geteuid().is_root() => Ok(()),
        result => result.map(drop),
    }
}

/// As [`copy_attributes`], to an object that may have extended attributes which the original does not have.
pub(in super::super) fn replace_attributes(original: &VnodeRef, copy: &VnodeRef) -> Result<()> {
    let server = Caller::server();
    let (wanted, there) = (original.listxattr(&server)?, copy.listxattr(&server)?);
    let is_wanted = |name: &[u8]| wanted.split(|&byte| byte == 0).any(|wanted| wanted == name);
    let surplus = there.split(|&byte| byte == 0).filter(|name| !name.is_empty() && !is_wanted(name));
    for name in surplus.filter(|name| !whiteout::is_own_attribute(name)) {
        match copy.removexattr(&server, name) {
            Err(Errno::ENODATA) => {}
            result => result?,
        }
    }
    copy_attributes(&server, original, copy, None)
}

fn copy_xattrs(writer: &Caller, original: &VnodeRef, copy: &VnodeRef, with_rights: bool) -> Result<()> {
    let server = Caller::server();
    let names = original.listxattr(&server)?;
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty() && !whiteout::is_own_attribute(name)) {
        if !with_rights && decides_access(name) {
            continue;
        }
        let value = match original.getxattr(&server, name) {
            Ok(value) => value,
            Err(Errno::ENODATA) => continue,
            // A capability of no bytes can be set but not read.
            Err(Errno::EINVAL) => Vec::new(),
            Err(error) => return Err(error),
        };
        match copy.setxattr(writer, name, &value, XattrMode::Set) {
            // Those that decide what is allowed may not get lost; others may, where they cannot be kept.
            Err(Errno::EOPNOTSUPP | Errno::EPERM) if !decides_access(name) => {}
            result => result?,
        }
    }
    Ok(())
}

fn decides_access(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_") || name.starts_with(b"security.")
}

/// Does something to a directory that users are not to see of its times.
pub(in super::super) fn keeping_times(directory: &VnodeRef, change: impl FnOnce() -> Result<()>) -> Result<()> {
    let server = Caller::server();
    let before = directory.getattr(&server)?;
    change()?;
    // The change is made; times that cannot be put back are no reason to say otherwise.
    let _ = directory.setattr(&server, &times_of(&before));
    Ok(())
}

fn times_of(attributes: &Attributes) -> SetAttributes {
    SetAttributes {
        atime: Some(SetTime::To(attributes.atime)),
        mtime: Some(SetTime::To(attributes.mtime)),
        ..SetAttributes::default()
    }
}
