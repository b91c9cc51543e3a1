//! The `plyfs` command as a library: its command line, what it does, its exit codes and its messages. The executable `plyfs` calls
//! [`main`]; `plyfs-tools` uses the command line.

pub mod arguments;
pub mod command_line;
pub mod completion;
pub mod exit;
pub mod options;
pub mod output;

mod commands;
mod control;
mod daemon;
mod expression;
mod file_size;
mod front_end;
mod fuse_connection;
mod logging;
mod mount_table;
mod program;
mod registry;
mod runtime_directory;
mod service_manager;
mod shell;
mod translated_words;

pub use program::{main, main_with};
pub use stack::command::{self, clap};
pub use stack::kinds::BaseKind;
pub use stack::search_path::SearchPath;
pub use stack::{Kind, OptionSpecification, Registry};
