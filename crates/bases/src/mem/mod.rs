//! `mem`: a complete Unix file system in memory, which performs permission checks itself.
//!
//! All contents are lost with the [`MemoryFileSystem`] and its last vnode. It is a base of its own, and the model that other
//! file systems are tested against: where POSIX leaves a choice, it behaves as Linux's own file systems do.

mod attributes;
mod budget;
mod create;
mod data;
mod directory;
mod file;
mod file_system;
mod inode;
mod memory;
mod metadata;
mod open_directory;
mod operations;
mod options;
mod remove;
mod rename;
mod volume;
mod xattr_store;
mod xattrs;

#[cfg(test)]
mod tests;

pub use file_system::MemoryFileSystem;
pub use options::{Options, OptionsError};

/// Name of this base in a stack.
const KIND: &str = "mem";
