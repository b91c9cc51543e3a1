//! Copies of objects, made by the server: of their data, and of their extended attributes.

mod data;
mod xattrs;

pub use data::copy_data;
use vnode::Errno;
pub use xattrs::{ACCESS_LIST, copy_xattrs, decides_access, is_label, is_of_file_system};

/// Returns whether the error says that the file system does not support what is to be set, or not for this object.
pub fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::EPERM | Errno::EACCES | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP)
}
