//! Descriptions read for a command, and what is shown when they are wrong.

use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};

use fist::diagnostic::Diagnostic;
use fist::ir::Program as Form;
use fist::load::{self, Loaded};
use fist::program::Program;
use fist::report::{self, Colours};

use crate::commands::report as tell;
use crate::exit::{Exit, Failure, Outcome};

/// Does the same with each file. What is wrong with one is told, and the others are done all the same.
pub(super) fn each(files: &[PathBuf], act: impl Fn(&Path) -> Outcome) -> Outcome {
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

/// A description without errors.
pub(super) struct Checked {
    pub(super) ir: Form,
    pub(super) program: Program,
    pub(super) text: String,
}

/// Reads a description that has no errors. What is wrong, or may be, is shown.
pub(super) fn checked(file: &Path) -> Outcome<Checked> {
    let Loaded { file, text, ir, program, diagnostics, .. } = load::load(file).map_err(unread)?;
    show(&file, &text, &diagnostics);
    match ir.zip(program) {
        Some((ir, program)) => Ok(Checked { ir, program, text }),
        None => Err(wrong(&file, &diagnostics, "mend what is told above")),
    }
}

/// A description that cannot be used.
pub(super) fn wrong(file: &str, diagnostics: &[Diagnostic], what_is_done: &str) -> Failure {
    Failure::new(Exit::Failure, format!("{file} has {}; {what_is_done}", report::counts(diagnostics)))
}

pub(super) fn unread(failure: load::Failure) -> Failure {
    Failure::new(Exit::Failure, failure)
}

/// Shows what is wrong, in colours on a terminal whose user wants them.
pub(super) fn show(file: &str, text: &str, diagnostics: &[Diagnostic]) {
    let is_colourful = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colours = if is_colourful { Colours::Always } else { Colours::Never };
    if !diagnostics.is_empty() {
        // Standard error may be gone; the code still tells.
        let _ = writeln!(stderr(), "{}", report::report(file, text, diagnostics, colours));
    }
}
