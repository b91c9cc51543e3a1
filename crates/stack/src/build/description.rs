//! FiST descriptions in a stack: read, checked, and put on what is below them.

use std::path::Path;

use fist::diagnostic::{Diagnostic, Severity};
use fist::program::Program;
use fist::text::TEXT_BYTES_MAX;
use layers::OptionError;
use vnode::FileSystemRef;

use super::error::BuildProblem;

/// A description that has been read and checked.
pub(super) struct Description {
    program: Program,
    text: String,
}

impl Description {
    /// Reads the file, and checks what is in it.
    pub(super) fn read(path: &Path) -> Result<Description, BuildProblem> {
        let wrong = |message: String| BuildProblem::Description { path: path.to_owned(), message };
        let bytes = std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(wrong(format!("is longer than {} MiB", TEXT_BYTES_MAX >> 20)));
        }
        let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8, and so no description".to_owned()))?;
        let parsed = fist::parser::parse(&text);
        let checked = fist::check::check(&parsed.description, &name(path));
        let diagnostics: Vec<_> = parsed.diagnostics.iter().chain(&checked.diagnostics).collect();
        let is_wrong = diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
        for warning in diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning) {
            tracing::warn!("{}", line(path, &text, warning));
        }
        match checked.program {
            Some(program) if !is_wrong => Ok(Description { program, text }),
            _ => {
                let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
                let errors: Vec<_> = errors.map(|error| line(path, &text, error)).collect();
                Err(wrong(format!("cannot be mounted:\n{}", errors.join("\n"))))
            }
        }
    }

    /// How many file systems it lies on.
    pub(super) fn fan_out(&self) -> usize {
        self.program.fan_out as usize
    }

    /// Puts it on several file systems.
    pub(super) fn join(
        self,
        path: &Path,
        pairs: &[(String, String)],
        branches: Vec<FileSystemRef>,
    ) -> Result<FileSystemRef, OptionError> {
        layers::described::join(self.program, &self.text, path, pairs, branches)
    }

    /// Puts it on a file system.
    pub(super) fn stack(
        self,
        path: &Path,
        pairs: &[(String, String)],
        lower: FileSystemRef,
    ) -> Result<FileSystemRef, OptionError> {
        layers::described::stack(self.program, &self.text, path, pairs, lower)
    }
}

/// The file's name up to its first dot: the description's, with which the names of its filter functions begin.
fn name(path: &Path) -> String {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    file.split('.').next().unwrap_or_default().to_owned()
}

/// A problem in a line: where, what, and what to do.
fn line(path: &Path, text: &str, diagnostic: &Diagnostic) -> String {
    let before = &text[..diagnostic.span.start as usize];
    let (line, column) = (before.matches('\n').count() + 1, before.chars().rev().take_while(|one| *one != '\n').count() + 1);
    let remedy = diagnostic.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    format!("{}:{line}:{column}: {}: {}{remedy}", path.display(), diagnostic.code.name(), diagnostic.message)
}
