//! The operations of the vnode interface on a union, by group; each goes from the user's name to instances in the branches.
//!
//! `vnode` passes each operation to its group: `listing`, `attributes`, `create`, `remove`, `rename`, `file`. `run` holds the
//! branches in place meanwhile. Before anything is copied or created come `permission` and `placement`, among the `candidates` of
//! the create policy, which may depend on `space`. `hidden_copies` applies changes to what the visible object hides,
//! and `branch_objects` finds all that the branches have of a name.

pub(crate) mod attributes;
pub(crate) mod branch_objects;
mod candidates;
pub(crate) mod create;
pub(crate) mod file;
mod hidden_copies;
pub(crate) mod listing;
pub(crate) mod mergerfs_attributes;
pub(crate) mod permission;
pub(crate) mod placement;
pub(crate) mod remove;
pub(crate) mod rename;
mod run;
pub(crate) mod space;
pub(crate) mod vnode;
