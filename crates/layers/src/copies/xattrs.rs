//! Extended attributes of copies: which there are, and which may get lost.

use vnode::{Caller, Errno, Result, VnodeRef, XattrMode};

use super::is_refusal;

const POSIX_LISTS: &[u8] = b"system.posix_acl_";
const CAPABILITIES: &[u8] = b"security.capability";
/// The access control list of an object.
pub(crate) const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Copies the extended attributes that are wanted, as a reader sees them; `lost` is told those that the copy does not keep.
///
/// # Errors
/// Also where the copy keeps no access control lists or capabilities, and such are wanted.
pub(crate) fn copy_xattrs(
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
            // A capability of no bytes can be set but not read.
            Err(Errno::EINVAL) => Vec::new(),
            Err(error) => return Err(error),
        };
        match copy.setxattr(writer, name, &value, XattrMode::Set) {
            // Labels are made anew by the security module that looks for them.
            Err(error) if is_label(name) && is_refusal(error) => lost(name),
            // Those that decide what is allowed may not get lost; others may, where they cannot be kept.
            Err(Errno::EOPNOTSUPP | Errno::EPERM | Errno::EACCES) if !decides_access(name) => lost(name),
            result => result?,
        }
    }
    Ok(())
}

/// Whether it decides what somebody may do with the object, or as it.
pub(crate) fn decides_access(name: &[u8]) -> bool {
    name.starts_with(POSIX_LISTS) || name == CAPABILITIES
}

/// Whether it is what a security module knows of the object, such as `security.selinux`.
pub(crate) fn is_label(name: &[u8]) -> bool {
    name.starts_with(b"security.") && name != CAPABILITIES
}

/// Whether it is what one file system alone has, such as the access control lists of NFSv4, for which the mode stands elsewhere.
pub(crate) fn is_of_file_system(name: &[u8]) -> bool {
    name.starts_with(b"system.") && !name.starts_with(POSIX_LISTS)
}
