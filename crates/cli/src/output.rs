//! Output of the command to its standard output and standard error.

use std::io::{ErrorKind, Write, stderr, stdout};

use crate::exit::{Exit, Failure, Outcome};

/// Reports a failure on standard error.
pub fn report(failure: &Failure) {
    // Standard error may be closed; the exit code still reports the failure.
    let _ = writeln!(stderr(), "plyfs: {failure}");
}

/// Notifies a person of something on standard error, as what a command waits for. It fails nothing.
pub fn notify(text: &str) {
    let _ = writeln!(stderr(), "plyfs: {text}");
}

/// Prints to standard output. A closed pipe is not a failure.
pub fn print(text: &str) -> Outcome {
    let mut output = stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failure, format!("cannot write the output: {error}; check where it goes")))
        }
        _ => Ok(()),
    }
}
