//! Mounting a stack: options and the decisions made from them, the mount point, and the running mount.

pub(crate) mod decisions;
pub(crate) mod error;
pub(crate) mod flags;
pub(crate) mod helper;
pub(crate) mod mount;
pub(crate) mod mount_point;
pub(crate) mod mounted;
pub(crate) mod options;
pub(crate) mod read_ahead;
