//! Extended attributes of objects in branches, read as the server.

use vnode::{Caller, Errno, Result, VnodeRef};

/// Names of an object's extended attributes, each NUL-terminated.
pub(crate) fn attributes(object: &VnodeRef) -> Result<Vec<u8>> {
    match object.listxattr(&Caller::server()) {
        Err(Errno::EOPNOTSUPP) => Ok(Vec::new()),
        names => names,
    }
}

/// The value of an attribute, if the object has it.
///
/// # Errors
/// Errors of getxattr(2), except for those that mean that there is none: an unreadable attribute may exist.
pub(crate) fn attribute(object: &VnodeRef, name: &[u8]) -> Result<Option<Vec<u8>>> {
    match object.getxattr(&Caller::server(), name) {
        Ok(value) => Ok(Some(value)),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}
