//! Output of the command to its standard output and standard error.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};

use serde::Serialize;
use stack::printable::{escaped, json_text};

use crate::exit::{Exit, Failure, Outcome};

/// Returns a word as it is written in a shell, for the commands in messages.
pub fn shell_word(word: impl AsRef<OsStr>) -> String {
    let text = word.as_ref().to_string_lossy();
    shlex::try_quote(&text).map_or_else(|_| text.clone().into_owned(), |quoted| quoted.into_owned())
}

/// Returns whether a stream shows colours: a terminal does, unless the user has disabled them (`NO_COLOR`).
pub(crate) fn may_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Reports a failure on standard error.
pub fn report(failure: &Failure) {
    // If it is closed, the exit code still reports the failure.
    let _ = writeln!(stderr(), "plyfs: {failure}");
}

/// Notifies a person of something on standard error, such as what a command waits for, in one line whatever names it quotes.
/// Standard error may be closed.
pub fn notify(text: &dyn Display) {
    let _ = writeln!(stderr(), "plyfs: {}", escaped(&text.to_string()));
}

/// Prints to standard output. A closed pipe is not a failure.
pub fn print(text: &str) -> Outcome {
    let mut output = stdout().lock();
    written(output.write_all(text.as_bytes()).and_then(|()| output.flush()))
}

/// Prints a value as JSON. Characters that control a terminal are escaped also where JSON does not ask for that.
pub fn print_json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    print(&json_text(&text))
}

/// Returns the outcome of writing to standard output.
pub(crate) fn written(result: io::Result<()>) -> Outcome {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failure, format!("cannot write to standard output: {error}; check its destination")))
        }
        _ => Ok(()),
    }
}
