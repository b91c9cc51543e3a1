//! What is said while a session runs.

use std::io::{self, Write};

use crate::exit::{Exit, Failure};

/// A line on standard error.
pub(super) fn tell(message: &str) {
    let line = Failure::new(Exit::Failure, message);
    // Standard error may be gone.
    let _ = writeln!(io::stderr(), "plyfs: {line}");
}
