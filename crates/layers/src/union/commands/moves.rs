//! `plyfs union drain`, `balance` and `consolidate`: moves of many objects between the branches of a mounted union.

use std::path::Path;

use super::client::query;
use crate::command::{CommandHost, Exit, Failure, Outcome};

/// Sends a command that moves objects, and prints its report.
///
/// # Errors
/// `Failure` if objects stay that should have moved.
pub(crate) fn run(host: &dyn CommandHost, mount_point: &Path, command: &str, arguments: &[(&str, &str)]) -> Outcome {
    let report = query(host, mount_point, command, arguments)?;
    host.print(&report)?;
    if report.lines().any(|line| line.starts_with("stays ")) {
        return Err(Failure::new(
            Exit::Failure,
            "some objects stay, see the lines above; correct the causes, and run it again",
        ));
    }
    Ok(())
}
