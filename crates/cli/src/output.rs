//! Output of the command to its standard output and standard error.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};

use crate::exit::{Exit, Failure, Outcome};

/// Reports a failure on standard error.
pub fn report(failure: &Failure) {
    // If it is closed, the exit code still reports the failure.
    notify(failure);
}

/// Notifies a person of something on standard error, such as what a command waits for. Standard error may be closed.
pub fn notify(text: &dyn Display) {
    let _ = writeln!(stderr(), "plyfs: {text}");
}

/// Prints to standard output. A closed pipe is not a failure.
pub fn print(text: &str) -> Outcome {
    let mut output = stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failure, format!("cannot write to standard output: {error}; check its destination")))
        }
        _ => Ok(()),
    }
}
