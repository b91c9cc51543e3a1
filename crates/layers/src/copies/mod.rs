//! Copies of objects: the part common to unions and FiST modules.

mod data;
mod xattrs;

pub(crate) use data::copy_data;
use vnode::Errno;
pub(crate) use xattrs::{ACCESS_LIST, copy_xattrs, decides_access, is_label, is_of_file_system};

/// Returns whether the error says that the file system does not support what is to be set, or not for this object.
pub(crate) fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::EPERM | Errno::EACCES | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP)
}
