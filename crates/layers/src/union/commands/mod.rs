//! Commands that the union adds to the command line: clients of a running union, and the check of one that is not mounted.

mod branches;
mod check;
mod client;
mod snapshot;
mod views;

use crate::command::LayerCommand;

pub(crate) const COMMANDS: &[LayerCommand] = &[branches::COMMAND, snapshot::COMMAND];
