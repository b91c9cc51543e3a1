//! The operations of the vnode interface on a union, by group; each goes from the user's name to instances in the branches.
//!
//! `vnode` passes each operation to its group: `listing`, `attributes`, `create`, `remove`, `rename`, `file`. `run` holds the
//! branches in place meanwhile. Before anything is copied or created come `permission` and `placement`.

pub(crate) mod attributes;
pub(crate) mod create;
pub(crate) mod file;
pub(crate) mod listing;
pub(crate) mod permission;
pub(crate) mod placement;
pub(crate) mod remove;
pub(crate) mod rename;
mod run;
pub(crate) mod vnode;
