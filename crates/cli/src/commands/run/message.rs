//! Messages to the user while a session runs.

use crate::commands;
use crate::exit::{Exit, Failure};

/// Prints a line on standard error.
pub(crate) fn notify(message: &str) {
    commands::report(&Failure::new(Exit::Failure, message));
}
