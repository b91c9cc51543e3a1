//! Extended attributes of what lies in branches, read as the server.

use vnode::{Caller, Errno, Result, VnodeRef};

/// The names of an object's extended attributes, each with a zero after it.
pub(super) fn attributes(object: &VnodeRef) -> Result<Vec<u8>> {
    match object.listxattr(&Caller::server()) {
        Err(Errno::EOPNOTSUPP) => Ok(Vec::new()),
        names => names,
    }
}

/// The value of an attribute, if the object has it.
///
/// # Errors
/// Those of getxattr(2) but for what tells that there is none: what could not be read may be there.
pub(super) fn attribute(object: &VnodeRef, name: &[u8]) -> Result<Option<Vec<u8>>> {
    match object.getxattr(&Caller::server(), name) {
        Ok(value) => Ok(Some(value)),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}
