//! The layer `union`: several branches as one tree, with Unix semantics (Wright et al., "Versatility and Unix Semantics in
//! Namespace Unification", the Unionfs paper).
//!
//! Of objects with one name, users see the leftmost branch's; directories are merged. An object that is to be changed in a
//! branch that must not be is copied to a higher branch, and one that is deleted there is hidden by a whiteout.
//!
//! **Invariants.** An object is visible beside its own whiteout: so a whiteout can be created before the object is removed, and
//! removed after an object has been created. Unfinished work is in the work directory. The lock of a directory is taken after
//! its parent's, and a file's before any directory's.
//!
//! **Where to read.** `state` (what all vnodes share), `node` (a vnode: an `identity`, and its instances in the branches),
//! then by room: `branch` (a tree and its state directory), `operations` (those of the vnode interface), `copy_up`, `cache`,
//! `snapshots`. `file_system` creates a union from its `options`; `commands` change its branches while it runs; `check` examines
//! branches that no union has. `crate::views` and `crate::fork` build on it.

pub(crate) mod branch;
pub(crate) mod cache;
mod check;
pub(crate) mod commands;
pub(crate) mod copy_up;
pub(crate) mod file_system;
pub(crate) mod operations;
mod options;
pub(crate) mod settings;
pub(crate) mod snapshots;
pub(crate) mod state;
pub(crate) mod tree_path;

use crate::Kind;
use crate::kind::Build;
pub use branch::losses::{Loss, Losses};
pub use branch::objects::remove_tree;
pub use branch::only_described::only_described;
pub use branch::trust::attributes_of_marks;
pub use check::{CheckError, CheckOptions, Finding, Problem, check};
pub use file_system::UnionFileSystem;
pub use options::create;

/// Registration of this layer.
pub const KIND: Kind = Kind {
    name: settings::NAME,
    summary: "merges branches into one tree; changes go to those that may be written",
    options: options::OPTIONS,
    build: Build::Joining(create),
};
