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
pub(crate) struct Description {
    program: Program,
    text: String,
}

impl Description {
    /// Reads and checks the file. Logs warnings.
    pub(crate) fn read(path: &Path) -> Result<Description, BuildProblem> {
        let loaded = load::load(path).map_err(|failure| BuildProblem::Description(failure.to_string()))?;
        let report = |diagnostics: &[_]| report(&loaded.file, &loaded.text, diagnostics, Colours::Never);
        match loaded.ir {
            Some(program) => {
                for warning in loaded.diagnostics.chunks(1).take(TOLD_MAX) {
                    tracing::warn!("{}", report(warning));
                }
                Ok(Description { program, text: loaded.text })
            }
            None => {
                let mut errors = loaded.diagnostics.clone();
                errors.retain(|diagnostic| diagnostic.severity == Severity::Error);
                Err(BuildProblem::Description(format!("the description is wrong\n{}", report(&errors))))
            }
        }
    }

    /// As [`Description::read`], for a program that is to be stacked on `below` file systems.
    pub(crate) fn read_for(path: &Path, below: usize) -> Result<Description, BuildProblem> {
        let description = Description::read(path)?;
        match description.fan_out() {
            needed if needed == below => Ok(description),
            needed => Err(BuildProblem::FanOut { path: path.to_owned(), needed, given: below }),
        }
    }

    /// Returns the number of file systems that it is stacked on.
    pub(crate) fn fan_out(&self) -> usize {
        self.program.levels[0].fan_out as usize
    }

    /// Applies its options.
    pub(crate) fn with(self, path: &Path, pairs: &[(String, String)]) -> Result<Prepared, OptionError> {
        Prepared::new(self.program, &self.text, path, pairs)
    }
}
