//! `dir`: a directory of this machine, served as it is.
//!
//! Every object is named by a descriptor and a single component, never by an assembled path, so nothing leads out of the
//! directory, whatever changes in it meanwhile. See [`DirectoryFileSystem`].

mod absolute_paths;
mod attached;
mod attributes;
mod calls;
mod capabilities;
mod claim;
mod covered;
mod create;
mod credentials;
mod descriptors;
mod entries;
mod error;
mod file;
mod file_system;
mod fsid;
mod handle;
mod ioctl;
mod locks;
mod mounts;
mod names;
mod node;
mod open_directory;
mod operations;
mod own_mount;
mod paths;
mod request_descriptors;
mod restrictions;
mod shares;
mod silly_rename;
mod status;
mod submounts;
mod subordinate_ids;
mod system;
mod table;
mod tree;
mod xattrs;

use vnode::Errno;

pub use attached::Attachment;
pub use credentials::restore_thread_credentials;
pub use error::OpenError;
pub use file_system::{DirectoryFileSystem, Options};
pub use own_mount::declare_single_mount;

/// Name of this base in a stack.
const KIND: &str = "dir";

/// Converts the error of a system call to that of the vnode interface.
fn errno(error: rustix::io::Errno) -> Errno {
    Errno::new(error.raw_os_error())
}
