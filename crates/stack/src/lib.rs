//! The stack expression, and the one function that builds a stack from it.
//!
//! An expression names a base and the layers on it, bottom first, as in a shell pipeline: `/srv/data | audit |
//! readonly`. [`syntax`] parses the text into a tree that records the column of every word, and writes it back;
//! [`build()`] opens the bases and stacks the layers on them; [`explain()`] describes the result. A
//! [`Registry`] adds kinds of layers that Plyfs does not have.

mod build;
mod explain;
pub mod kinds;
mod registry;
pub mod suggest;
pub mod syntax;

pub use bases::dir::OpenError;
pub use build::{
    BuildError, BuildProblem, build, build_description, build_descriptions, build_directory, fan_out, merge_barrier,
};
pub use explain::explain;
pub use layers::fork::{
    Change, CommitError, CommitOptions, Committed, Conflict, Difference, Fork, to_json as differences_to_json,
};
pub use layers::union::{
    CheckError, CheckOptions, Finding, attributes_of_marks, check as check_union, only_described, remove_tree,
};
pub use layers::{Branch as OpenBranch, Kind, Refusal};
pub use registry::Registry;
