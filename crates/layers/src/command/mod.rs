//! Commands that layers add to the command line of the program that registers them.
//!
//! A layer's commands are clients of the layer: they run in the process of the command line, which offers them what they need as a
//! [`CommandHost`], and reach a running mount only by its control commands.

mod failure;
mod host;

use std::fmt;

pub use clap;

pub use failure::{Exit, Failure, Outcome};
pub use host::{CommandHost, MountAnswers, Print};

/// A command that a layer adds to the command line.
#[derive(Clone, Copy)]
pub struct LayerCommand {
    /// The name, which must differ from those of the other commands and their aliases.
    pub name: &'static str,
    /// Returns the arguments, help texts and subcommands.
    pub command: fn() -> clap::Command,
    /// Runs the command with the arguments that were given.
    pub run: fn(&clap::ArgMatches, &dyn CommandHost) -> Outcome,
}

impl fmt::Debug for LayerCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LayerCommand").field("name", &self.name).finish_non_exhaustive()
    }
}
