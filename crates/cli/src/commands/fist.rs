//! `plyfs fist`: descriptions of file systems in the language FiST.

mod begin;
mod layout;

use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};

use fist::diagnostic::Diagnostic;
use fist::load::{self, Loaded};
use fist::report::{self, Colours};

use super::report as tell;
use crate::arguments::Fist;
use crate::exit::{Exit, Failure, Outcome};

/// Runs the command.
pub fn run(command: &Fist) -> Outcome {
    match command {
        Fist::Check { files } => each(files, check),
        Fist::Fmt { check, files } => layout::run(files, *check),
        Fist::New { name, directory } => begin::run(name, directory.as_deref()),
        Fist::Lsp => fist_server::serve().map_err(|error| {
            Failure::new(Exit::Failure, format!("the language server has ended: {error}; editors start it again"))
        }),
    }
}

/// Does the same with each file. What is wrong with one is told, and the others are done all the same.
fn each(files: &[PathBuf], act: impl Fn(&Path) -> Outcome) -> Outcome {
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

fn check(file: &Path) -> Outcome {
    let Loaded { file, text, program, diagnostics, .. } = load::load(file).map_err(unread)?;
    show(&file, &text, &diagnostics);
    match program {
        Some(_) => Ok(()),
        None => Err(wrong(&file, &diagnostics, "mend what is told above")),
    }
}

/// A description that cannot be used.
fn wrong(file: &str, diagnostics: &[Diagnostic], what_is_done: &str) -> Failure {
    Failure::new(Exit::Failure, format!("{file} has {}; {what_is_done}", report::counts(diagnostics)))
}

fn unread(failure: load::Failure) -> Failure {
    Failure::new(Exit::Failure, failure)
}

/// Shows what is wrong, in colours on a terminal whose user wants them.
fn show(file: &str, text: &str, diagnostics: &[Diagnostic]) {
    let is_colourful = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colours = if is_colourful { Colours::Always } else { Colours::Never };
    if !diagnostics.is_empty() {
        // Standard error may be gone; the code still tells.
        let _ = writeln!(stderr(), "{}", report::report(file, text, diagnostics, colours));
    }
}
