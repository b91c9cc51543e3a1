//! FiST programs in a stack: read, checked, and stacked on what is below them.

use std::path::Path;

use fist::diagnostic::Severity;
use fist::ir::Program;
use fist::load;
use fist::report::{Colours, TOLD_MAX, report};
use layers::OptionError;
use layers::described::Prepared;

use super::error::BuildProblem;

/// A FiST program that has been read and checked.
pub(crate) struct LoadedProgram {
    program: Program,
    text: String,
}

impl LoadedProgram {
    /// Reads and checks the file. Logs warnings.
    pub(crate) fn read(path: &Path) -> Result<LoadedProgram, BuildProblem> {
        let loaded = load::load(path).map_err(|failure| BuildProblem::Description(failure.to_string()))?;
        let report = |diagnostics: &[_]| report(&loaded.file, &loaded.text, diagnostics, Colours::Never);
        match loaded.ir {
            Some(program) => {
                for warning in loaded.diagnostics.chunks(1).take(TOLD_MAX) {
                    tracing::warn!("{}", report(warning));
                }
                Ok(LoadedProgram { program, text: loaded.text })
            }
            None => {
                let mut errors = loaded.diagnostics.clone();
                errors.retain(|diagnostic| diagnostic.severity == Severity::Error);
                Err(BuildProblem::Description(format!("the description is wrong\n{}", report(&errors))))
            }
        }
    }

    /// As [`LoadedProgram::read`], for a program that is to be stacked on `below` file systems.
    pub(crate) fn read_for_fan_out(path: &Path, below: usize) -> Result<LoadedProgram, BuildProblem> {
        let loaded = LoadedProgram::read(path)?;
        match loaded.fan_out() {
            needed if needed == below => Ok(loaded),
            needed => Err(BuildProblem::FanOut { path: path.to_owned(), needed, given: below }),
        }
    }

    /// Returns the number of file systems that it is stacked on.
    pub(crate) fn fan_out(&self) -> usize {
        self.program.levels[0].fan_out as usize
    }

    /// Applies its options.
    pub(crate) fn prepare(self, path: &Path, pairs: &[(String, String)]) -> Result<Prepared, OptionError> {
        Prepared::new(self.program, &self.text, path, pairs)
    }
}
