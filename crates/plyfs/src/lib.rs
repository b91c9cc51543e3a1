//! Plyfs for programs: a stack of thin layers on any file system, built from an expression, read and walked in the process, and
//! mounted.
//!
//! ```
//! use plyfs::Stack;
//!
//! let stack = Stack::open("mem: | readonly")?;
//! for entry in stack.walk("/")? {
//!     let entry = entry?;
//!     println!("{} {}", entry.attributes.size, entry.path.display());
//! }
//! # Ok::<(), plyfs::Error>(())
//! ```
//!
//! [`Stack::mount`] mounts the same stack for all programs. A [`Registry`] adds layers and bases of a program's own. Everything else that
//! can be done with a stack is an operation of [`vnode`], which this crate re-exports as it does [`layers`], for the options of a
//! layer, [`fuse`], for the options of a mount, and [`device`], for bases on disks.
//!
//! In a process of root, a thread that calls a base in a directory keeps the file-system ids of the last caller:
//! [`restore_thread_credentials`] takes them back. Operations by path here act as this process, and need no such care.

mod caller;
mod error;
mod mounted;
mod stack;
mod tree;
mod walk;

pub use self::stack::Stack;
pub use ::stack::kinds::{BaseError, BaseKind};
pub use ::stack::search_path::SearchPath;
pub use ::stack::{BuildError, BuildProblem, Kind, Registry, is_only_described};
pub use bases::device;
pub use bases::dir::restore_thread_credentials;
pub use caller::own_caller;
pub use error::Error;
pub use frontends::fuse;
pub use layers;
pub use mounted::Mounted;
pub use tree::{CallerTree, DirectoryEntry, ResolvedPath};
pub use vnode;
pub use walk::{Walk, WalkEntry};

/// The guide for programs, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/library.md"))]
pub struct Guide;
