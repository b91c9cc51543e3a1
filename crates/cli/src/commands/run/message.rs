//! Messages to the user while a session runs.

use std::io::{self, Write};

use crate::exit::{Exit, Failure};

/// Prints a line on standard error.
pub(super) fn tell(message: &str) {
    let line = Failure::new(Exit::Failure, message);
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "plyfs: {line}");
}
