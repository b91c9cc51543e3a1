//! Extended attributes of copies: the kinds of attributes, and the ones that a copy may lose.

use vnode::{Caller, Errno, Result, VnodeRef, XattrMode};

use super::is_refusal;

const POSIX_ACL_PREFIX: &[u8] = b"system.posix_acl_";
const CAPABILITY_XATTR: &[u8] = b"security.capability";
/// Extended attribute with the access control list of an object.
pub const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Copies the wanted extended attributes as the reader sees them; `lost` receives those that the copy does not keep.
///
/// # Errors
/// Also fails if the copy keeps no access control lists or capabilities, and such are wanted.
pub fn copy_xattrs(
    (original, reader): (&VnodeRef, &Caller),
    (copy, writer): (&VnodeRef, &Caller),
    is_wanted: impl Fn(&[u8]) -> bool,
    mut lost: impl FnMut(&[u8]),
) -> Result<()> {
    let names = original.listxattr(reader)?;
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty() && is_wanted(name)) {
        let value = match original.getxattr(reader, name) {
            Ok(value) => value,
            Err(Errno::ENODATA) => continue,
            // An empty capability can be set but not read.
            Err(Errno::EINVAL) => Vec::new(),
            Err(error) => return Err(error),
        };
        match copy.setxattr(writer, name, &value, XattrMode::Set) {
            // The security module that looks for a label creates it anew.
            Err(error) if is_label(name) && is_refusal(error) => lost(name),
            // Attributes that decide access must not be lost; others may be, where they cannot be kept.
            Err(Errno::EOPNOTSUPP | Errno::EPERM | Errno::EACCES) if !decides_access(name) => lost(name),
            result => result?,
        }
    }
    Ok(())
}

/// Returns whether the attribute decides what a process may do with the object, or with the object's privileges.
pub fn decides_access(name: &[u8]) -> bool {
    name.starts_with(POSIX_ACL_PREFIX) || name == CAPABILITY_XATTR
}

/// Returns whether the attribute is a security module's label of the object, such as `security.selinux`.
pub fn is_label(name: &[u8]) -> bool {
    name.starts_with(b"security.") && name != CAPABILITY_XATTR
}

/// Returns whether the attribute is specific to one file system, such as the access control lists of NFSv4, for which
/// other file systems have the mode.
pub fn is_of_file_system(name: &[u8]) -> bool {
    name.starts_with(b"system.") && !name.starts_with(POSIX_ACL_PREFIX)
}
