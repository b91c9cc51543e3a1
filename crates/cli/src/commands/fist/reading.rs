//! Loading of FiST programs for a command, and the output of their diagnostics.

use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};

use fist::diagnostic::Diagnostic;
use fist::ir::Program as Form;
use fist::load::{self, Loaded};
use fist::program::Program;
use fist::report::{self, Colours};

use crate::commands::report as tell;
use crate::exit::{Exit, Failure, Outcome};

/// Calls `act` with each file. The errors of one file are reported, and the others are processed nevertheless.
pub(crate) fn each(files: &[PathBuf], act: impl Fn(&Path) -> Outcome) -> Outcome {
    let mut outcome = Ok(());
    for file in files {
        if let Err(failure) = act(file) {
            if !failure.is_silent() {
                tell(&failure);
            }
            outcome = Err(Failure::silent(failure.exit));
        }
    }
    outcome
}

/// A FiST program without errors.
pub(crate) struct Checked {
    pub(crate) ir: Form,
    pub(crate) program: Program,
    pub(crate) text: String,
}

/// Loads a FiST program that must have no errors. Prints its errors and warnings.
pub(crate) fn checked(file: &Path) -> Outcome<Checked> {
    let Loaded { file, text, ir, program, diagnostics, .. } = load::load(file).map_err(unread)?;
    show(&file, &text, &diagnostics);
    match ir.zip(program) {
        Some((ir, program)) => Ok(Checked { ir, program, text }),
        None => Err(wrong(&file, &diagnostics, "mend what is told above")),
    }
}

/// Returns the failure for a FiST program that cannot be used.
pub(crate) fn wrong(file: &str, diagnostics: &[Diagnostic], what_is_done: &str) -> Failure {
    Failure::new(Exit::Failure, format!("{file} has {}; {what_is_done}", report::counts(diagnostics)))
}

pub(crate) fn unread(failure: load::Failure) -> Failure {
    Failure::new(Exit::Failure, failure)
}

/// Prints the diagnostics, in colour on a terminal unless the user has disabled it.
pub(crate) fn show(file: &str, text: &str, diagnostics: &[Diagnostic]) {
    let is_colourful = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colours = if is_colourful { Colours::Always } else { Colours::Never };
    if !diagnostics.is_empty() {
        // Standard error may be closed; the exit code still reports the failure.
        let _ = writeln!(stderr(), "{}", report::report(file, text, diagnostics, colours));
    }
}
