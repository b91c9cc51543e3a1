//! Extended attributes: namespaces, limits, permissions, and ACLs in the form of attributes.

use libc::{S_ISGID, S_ISVTX};
use vnode::{Caller, Errno, FileKind, Result};

use super::acl::Acl;
use super::permissions;
use super::protection::Protection;
use super::set_id::may_keep_setgid;

/// Maximum length of a name in bytes, namespace included.
const NAME_MAX: usize = 255;
/// Maximum size of a value in bytes.
pub(crate) const VALUE_MAX: usize = 65_536;
/// Maximum number of bytes that listxattr(2) can return.
pub(crate) const LIST_MAX: usize = 65_536;

/// The extended attribute that holds a program's capabilities.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// The namespace of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    User,
    Trusted,
    Security,
    AccessAcl,
    DefaultAcl,
    /// Any other, which is unsupported.
    Other,
}

/// Returns the namespace of a name.
///
/// # Errors
/// `ERANGE` for a name of invalid length, `EOPNOTSUPP` for an unknown attribute of the system.
pub(crate) fn namespace_of(name: &[u8]) -> Result<Namespace> {
    match name {
        _ if name.is_empty() || name.len() > NAME_MAX => Err(Errno::ERANGE),
        ACCESS_ACL => Ok(Namespace::AccessAcl),
        DEFAULT_ACL => Ok(Namespace::DefaultAcl),
        _ if name.starts_with(b"system.") => Err(Errno::EOPNOTSUPP),
        _ if name.starts_with(b"user.") => Ok(Namespace::User),
        _ if name.starts_with(b"trusted.") => Ok(Namespace::Trusted),
        _ if name.starts_with(b"security.") => Ok(Namespace::Security),
        _ => Ok(Namespace::Other),
    }
}

/// Checks whether the caller may read an attribute that is not an ACL.
///
/// # Errors
/// `ENODATA`, `EPERM` and `EACCES` as the namespace has it, then as [`check_name`].
pub(crate) fn check_reading(protection: &Protection, caller: &Caller, namespace: Namespace, name: &[u8]) -> Result<()> {
    check_access(protection, caller, namespace, name, permissions::READ)
}

/// Checks whether the caller may set or remove an attribute that is not an ACL; `value` is the one that is set or removed.
///
/// # Errors
/// `EPERM` and `EACCES` as the namespace has it, then as [`check_name`].
pub(crate) fn check_writing(
    protection: &Protection,
    caller: &Caller,
    namespace: Namespace,
    name: &[u8],
    value: &[u8],
) -> Result<()> {
    if name == CAPABILITY && caller.may_give_capabilities(value, protection.uid) {
        return Ok(());
    }
    check_access(protection, caller, namespace, name, permissions::WRITE)
}

/// Checks the value that an attribute is set to.
///
/// # Errors
/// `EINVAL` for capabilities of a form that the kernel does not accept.
pub(crate) fn check_value(name: &[u8], value: &[u8]) -> Result<()> {
    if name == CAPABILITY && !value.is_empty() && !is_capability(value) { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Returns a stored value as reading returns it: empty capabilities can be set but not read.
///
/// # Errors
/// `EINVAL`.
pub(crate) fn readable(name: &[u8], value: &[u8]) -> Result<Vec<u8>> {
    if name == CAPABILITY && value.is_empty() { Err(Errno::EINVAL) } else { Ok(value.to_vec()) }
}

/// Returns whether listing shows the caller an attribute.
pub(crate) fn is_visible(name: &[u8], caller: &Caller) -> bool {
    !name.starts_with(b"trusted.") || caller.is_superuser()
}

/// Returns the names of the ACLs of an object.
pub(crate) fn acl_names(protection: &Protection) -> impl Iterator<Item = &[u8]> {
    let acls = [(ACCESS_ACL, &protection.access_acl), (DEFAULT_ACL, &protection.default_acl)];
    acls.into_iter().filter(|(_, acl)| acl.is_some()).map(|(name, _)| name)
}

/// Returns an ACL in the form of an attribute.
///
/// # Errors
/// `EOPNOTSUPP` for a symlink, `ENODATA` if there is none.
pub(crate) fn acl_value(protection: &Protection, namespace: Namespace) -> Result<Vec<u8>> {
    if protection.kind == FileKind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    acl_of(protection, namespace).as_ref().map(|acl| acl.to_bytes()).ok_or(Errno::ENODATA)
}

/// Sets or removes an ACL, with the corresponding mode bits. Returns whether anything changed.
///
/// # Errors
/// `EOPNOTSUPP` for a symlink, `EACCES` for a default list of anything but a directory, `EPERM`, `EINVAL`.
pub(crate) fn set_acl(
    protection: &mut Protection,
    caller: &Caller,
    namespace: Namespace,
    acl: Option<Acl>,
) -> Result<bool> {
    if protection.kind == FileKind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    if namespace == Namespace::DefaultAcl && protection.kind != FileKind::Directory {
        return if acl.is_some() { Err(Errno::EACCES) } else { Ok(false) };
    }
    permissions::check_owner(protection, caller)?;
    match &acl {
        Some(acl) => acl.check()?,
        None if acl_of(protection, namespace).is_none() => return Ok(false),
        None => {}
    }
    match (namespace, acl) {
        (Namespace::DefaultAcl, acl) => protection.default_acl = acl.map(Box::new),
        (_, None) => protection.access_acl = None,
        (_, Some(acl)) => {
            let before = (protection.mode, protection.access_acl.is_none());
            protection.mode = protection.mode & !0o777 | acl.mode_bits();
            if !may_keep_setgid(caller, protection.gid) {
                protection.mode &= !S_ISGID;
            }
            protection.access_acl = (!acl.is_mode_only()).then(|| acl.into());
            // The mode may already express it.
            return Ok(before != (protection.mode, true) || protection.access_acl.is_some());
        }
    }
    Ok(true)
}

fn acl_of(protection: &Protection, namespace: Namespace) -> &Option<Box<Acl>> {
    if namespace == Namespace::DefaultAcl { &protection.default_acl } else { &protection.access_acl }
}

/// Checks that the name is valid: Linux does so after the caller's permissions.
fn check_name(namespace: Namespace, name: &[u8]) -> Result<()> {
    match namespace {
        Namespace::Other => Err(Errno::EOPNOTSUPP),
        _ if name.ends_with(b".") && name.iter().filter(|&&byte| byte == b'.').count() == 1 => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

fn check_access(
    protection: &Protection,
    caller: &Caller,
    namespace: Namespace,
    name: &[u8],
    wanted: u32,
) -> Result<()> {
    let writes = wanted == permissions::WRITE;
    let refusal = if writes { Errno::EPERM } else { Errno::ENODATA };
    match namespace {
        Namespace::Trusted if !caller.is_superuser() => return Err(refusal),
        Namespace::Security if writes && !caller.is_superuser() => return Err(Errno::EPERM),
        Namespace::User if !matches!(protection.kind, FileKind::Regular | FileKind::Directory) => return Err(refusal),
        Namespace::User | Namespace::Other => {
            let sticky = protection.kind == FileKind::Directory && protection.mode & S_ISVTX != 0;
            if writes && sticky && namespace == Namespace::User {
                permissions::check_owner(protection, caller)?;
            }
            permissions::check(protection, caller, wanted)?;
        }
        _ => {}
    }
    check_name(namespace, name)
}

/// Returns whether a value has the form that the kernel accepts for `security.capability`: revision 2 or 3 with its length.
fn is_capability(value: &[u8]) -> bool {
    const REVISION: usize = 3;
    matches!((value.len(), value.get(REVISION)), (20, Some(2)) | (24, Some(3)))
}
