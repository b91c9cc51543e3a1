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
//! **Where to read.** By room, from the bottom; each names only those before it:
//! 1. `branch`: one tree and its state directory, and the set of all; `settings` of the union, and its `policies`.
//! 2. `cache`: names in the branches.
//! 3. `state`: the types `Union` and `Node`, which refer to each other, and what changes nothing but them.
//! 4. `lookup`: which objects the branches have, and which nodes these are.
//! 5. `copy_up`: objects that are changed come to a branch that may be.
//! 6. `operations`: those of the vnode interface. What differs between views of a mount is in `crate::views`.
//! 7. `change`: the set of branches is replaced while no operation is in progress, because of `foreign_changes` too. `recovery`
//!    finishes what an earlier server has left.
//! 8. `snapshots`: layers of a branch are frozen, merged and restored.
//! 9. `control` of a running union, which passes commands to those below: `branch_commands`, `rescan`, `which` and `moves`.
//!    `file_system`, which creates it from its `options`, and `check`, which examines branches that no union has. `crate::fork`
//!    builds on all.
//! 10. `commands` of the command line, clients of a running union, and `mergerfs`, which translates mounts of that file system.

pub(crate) mod branch;
mod branch_commands;
pub(crate) mod cache;
pub(crate) mod change;
mod check;
#[cfg(feature = "commands")]
mod commands;
pub(crate) mod control;
pub(crate) mod control_arguments;
mod control_specifications;
pub(crate) mod copy_up;
pub(crate) mod file_system;
mod foreign_changes;
pub(crate) mod lookup;
#[cfg(feature = "commands")]
mod mergerfs;
mod moves;
pub(crate) mod operations;
mod options;
pub(crate) mod policies;
mod recovery;
mod rescan;
pub(crate) mod settings;
pub(crate) mod snapshots;
pub(crate) mod state;
pub(crate) mod tree_path;
mod which;

use crate::Kind;
pub use branch::losses::{Loss, Losses};
pub use branch::objects::remove_tree;
pub use branch::trust::attributes_of_marks;
pub use branch::whiteout::STATE_DIRECTORY;
pub use check::{CheckError, CheckOptions, Finding, Problem, check};
pub use file_system::UnionFileSystem;
pub use options::create;

/// Registration of this layer.
pub const KIND: Kind = {
    let kind = Kind::joining(
        settings::NAME,
        "merges branches into one tree; changes go to the writable ones",
        options::OPTIONS,
        create,
    )
    .with_controls(control_specifications::CONTROLS);
    #[cfg(feature = "commands")]
    let kind = kind.with_commands(commands::COMMANDS).with_mount_translators(&[mergerfs::TRANSLATOR]);
    kind
};
