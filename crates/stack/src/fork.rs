//! Forks of a stack: the changes of one command, visible to it alone until they are committed to the stack or discarded.
//!
//! Programs that run commands in forks use this module, and not the layers that forks are made of.

pub use layers::fork::{
    Change, CommitError, CommitOptions, Committed, Conflict, Difference, Fork, format_differences, to_json,
};
pub use layers::union::{attributes_of_marks, remove_tree};
