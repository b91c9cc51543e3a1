//! The command line, its exit codes and its messages, for the executables `plyfs` and `plyfs-tools`.

pub mod arguments;
pub mod exit;
pub mod options;
pub mod output;
