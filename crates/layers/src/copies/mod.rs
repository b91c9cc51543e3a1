//! Copies of objects: what those of a union and those of descriptions have in common.

mod data;
mod xattrs;

pub(crate) use data::copy_data;
use vnode::Errno;
pub(crate) use xattrs::{ACCESS_LIST, copy_xattrs, decides_access, is_label, is_of_file_system};

/// Whether the error says that a file system does not have what is to be set, or not for this object.
pub(crate) fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::EPERM | Errno::EACCES | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP)
}
