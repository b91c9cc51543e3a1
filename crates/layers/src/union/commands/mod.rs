//! Commands that the union adds to the command line: clients of a running union, and the check of one that is not mounted.

mod branches;
mod check;
mod client;
mod confirmation;
mod moves;
mod snapshot;
mod views;
mod which;

use crate::command::MemberCommand;

pub(crate) const COMMANDS: &[MemberCommand] = &[branches::COMMAND, snapshot::COMMAND];
