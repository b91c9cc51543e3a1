//! The stack expression, and the one function that builds a stack from it.
//!
//! An expression names a base and the layers on it, bottom first, as in a shell pipeline: `/srv/data | audit |
//! readonly`. [`syntax`] parses the text into a tree that records the column of every word, and writes it back;
//! [`build()`] opens the bases and stacks the layers on them; [`explain()`] describes the result. A
//! [`Registry`] adds kinds of layers and bases that Plyfs does not have.

mod build;
mod built_in;
mod directory;
mod explain;
mod fat;
pub mod fork;
mod iso;
pub mod kinds;
pub mod overlay;
mod registry;
pub mod search_path;
pub mod suggest;
pub mod syntax;

pub use bases::device::OpenError as DeviceError;
pub use bases::dir::{OpenError, declare_single_mount};
pub use build::{
    BuildError, BuildProblem, build, build_description, build_descriptions, build_directory, directories_at, fan_out,
    merge_barrier,
};
pub use explain::explain;
#[cfg(feature = "commands")]
pub use layers::command;
pub use layers::{
    BRANCHES_COMMAND, Branch as OpenBranch, ControlFailure, ControlSpecification, Kind, OptionSpecification,
    is_only_described, only_described,
};
pub use layers::{printable, standard_error};
pub use registry::Registry;
