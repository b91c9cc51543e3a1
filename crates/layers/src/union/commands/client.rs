//! Requests to the union of a running mount.

use std::ffi::OsStr;
use std::path::Path;

use serde::Deserialize;
use vnode::Control;

use crate::command::{CommandHost, Exit, Failure, Outcome};
use crate::union::settings::NAME;

/// Sends a control command to the union that is mounted on this path, and returns the answer.
pub(crate) fn query(
    host: &dyn CommandHost,
    mount_point: &Path,
    command: &str,
    arguments: &[(&str, &str)],
) -> Outcome<String> {
    let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    host.control(mount_point, Control { target: NAME.to_owned(), command: command.to_owned(), arguments })
}

/// Sends a control command, and prints the answer.
pub(crate) fn print_answer(
    host: &dyn CommandHost,
    mount_point: &Path,
    command: &str,
    arguments: &[(&str, &str)],
) -> Outcome {
    host.print(&query(host, mount_point, command, arguments)?)
}

/// Returns a branch that the union has: as it was written, or its number.
pub(crate) fn existing_branch(host: &dyn CommandHost, argument: &OsStr) -> Outcome<String> {
    match argument.to_str().filter(|text| text.parse::<usize>().is_ok()) {
        Some(number) => Ok(number.to_owned()),
        None => host.branch_text(argument),
    }
}

/// Parses an answer in JSON.
///
/// # Errors
/// `NoAnswer` if it is of another form, such as that of another version.
pub(crate) fn parse_answer<'a, T: Deserialize<'a>>(answer: &'a str) -> Outcome<T> {
    serde_json::from_str(answer).map_err(|error| {
        Failure::new(
            Exit::NoAnswer,
            format!("cannot parse the server's answer: {error}; if it is of another version, mount the stack again"),
        )
    })
}
