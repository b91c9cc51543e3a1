//! Loading of FiST programs for a command, and the output of their diagnostics.

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};

use fist::diagnostic::Diagnostic;
use fist::ir::Program as IrProgram;
use fist::load::{self, Loaded};
use fist::program::Program;
use fist::report::{self, Colours};

use crate::commands::report as report_failure;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Calls `process` with each file. The errors of one file are reported, and the others are processed nevertheless.
pub(crate) fn for_each_file(files: &[PathBuf], process: impl Fn(&Path) -> Outcome) -> Outcome {
    let mut outcome = Ok(());
    for file in files {
        if let Err(failure) = process(file) {
            if !failure.is_silent() {
                report_failure(&failure);
            }
            outcome = Err(Failure::silent(failure.exit));
        }
    }
    outcome
}

/// A FiST program without errors.
pub(crate) struct CheckedProgram {
    pub(crate) ir: IrProgram,
    pub(crate) program: Program,
    pub(crate) text: String,
}

/// Loads a FiST program that must have no errors. Prints its errors and warnings.
pub(crate) fn load_checked(file: &Path) -> Outcome<CheckedProgram> {
    let Loaded { file, text, ir, program, diagnostics, .. } = load::load(file).map_err(load_failure)?;
    print_diagnostics(&file, &text, &diagnostics);
    match ir.zip(program) {
        Some((ir, program)) => Ok(CheckedProgram { ir, program, text }),
        None => Err(diagnostics_failure(&file, &diagnostics, "fix the errors above")),
    }
}

/// Returns the failure for a FiST program that cannot be used.
pub(crate) fn diagnostics_failure(file: &str, diagnostics: &[Diagnostic], what_is_done: &str) -> Failure {
    Failure::new(Exit::Failure, format!("{file} has {}; {what_is_done}", report::counts(diagnostics)))
}

pub(crate) fn load_failure(failure: load::Failure) -> Failure {
    Failure::new(Exit::Failure, failure)
}

/// Prints the diagnostics, in colour on a terminal unless the user has disabled it.
pub(crate) fn print_diagnostics(file: &str, text: &str, diagnostics: &[Diagnostic]) {
    let colours = if output::may_colour(&stderr()) { Colours::Always } else { Colours::Never };
    if !diagnostics.is_empty() {
        // Standard error may be closed; the exit code still reports the failure.
        let _ = writeln!(stderr(), "{}", report::report(file, text, diagnostics, colours));
    }
}
