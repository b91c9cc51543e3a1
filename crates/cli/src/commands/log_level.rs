//! `plyfs log-level`: prints or sets the log level of a running mount.

use super::{find_running, print};
use crate::arguments::LogLevel;
use crate::control::Request;
use crate::exit::Outcome;
use crate::logging;

/// Runs the command.
pub(crate) fn run(arguments: &LogLevel) -> Outcome {
    if let Some(level) = &arguments.level {
        logging::check(level)?;
    }
    let level = find_running(&arguments.mount_point)?.text(&Request::LogLevel { level: arguments.level.clone() })?;
    match arguments.level {
        Some(_) => Ok(()),
        None => print(&format!("{level}\n")),
    }
}
