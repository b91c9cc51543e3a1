//! The operations of the vnode interface on a union, by group; each goes from the user's name to instances in the branches.
//!
//! `vnode` passes each operation to its group: `lookup`, `listing`, `attributes`, `xattrs`, `create`, `remove`, `rename`, `file`
//! (with `locks`). Before anything is copied or created come `permission` and `placement`. The `gate` separates operations from
//! changes of the branches; `helpers` are threads that share the work of one operation.

pub(crate) mod attributes;
pub(crate) mod create;
pub(crate) mod failures;
pub(crate) mod file;
mod foreign_changes;
pub(crate) mod helpers;
pub(crate) mod identity;
pub(crate) mod listing;
pub(crate) mod lookup;
pub(crate) mod parallel;
pub(crate) mod permission;
pub(crate) mod placement;
mod recovery;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod revalidation;
pub(crate) mod vnode;
