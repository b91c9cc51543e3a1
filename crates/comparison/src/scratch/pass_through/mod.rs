//! A loopback file system on the bare FUSE crate: what somebody without a toolkit writes first, and builds on.
//!
//! [`Operations`] is what a sample overrides, [`PassThrough`] does each of them in a directory, and [`Adapter`] turns
//! them into the requests and replies of FUSE. Whatever a name or a permission decides is done as the user who asks, so
//! that the file system below checks it; names are not kept by the kernel, so that each search is checked.

mod adapter;
mod attributes;
mod caller;
mod directory;
mod handles;
mod inodes;
mod loopback;
mod mount;
mod operations;
mod replies;

pub use adapter::Adapter;
pub use caller::{Acting, Caller};
pub use handles::Handles;
pub use loopback::{PassThrough, path_of, read_all};
pub use mount::mount;
pub use operations::{Listed, Operations, Result, SetAttributes, write_command};
