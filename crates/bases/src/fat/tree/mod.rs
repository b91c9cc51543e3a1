//! The tree of a mounted volume: inodes, the operations on them, and synchronization with the disk.

pub(crate) mod attributes;
pub(crate) mod block_buffer;
pub(crate) mod changing;
pub(crate) mod create;
pub(crate) mod directories;
pub(crate) mod file;
pub(crate) mod handles;
pub(crate) mod inode;
pub(crate) mod link_store;
pub(crate) mod links;
pub(crate) mod metadata;
pub(crate) mod numbers;
pub(crate) mod open_directory;
pub(crate) mod operations;
pub(crate) mod owners;
pub(crate) mod pending;
pub(crate) mod records;
pub(crate) mod relink;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod resolve;
pub(crate) mod snapshot;
pub(crate) mod stamps;
pub(crate) mod statistics;
pub(crate) mod sync_timer;
pub(crate) mod synchronize;
pub(crate) mod volume;
pub(crate) mod xattrs;
pub(crate) mod zeros;

/// Name of this base in a stack.
pub(crate) const KIND: &str = "fat";
