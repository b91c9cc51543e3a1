//! Compile errors.

use std::fmt;

/// The reason why a program was not compiled. It can still be interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The function concerned, if any.
    pub function: Option<String>,
    /// The error message.
    pub what: String,
}

impl CompileError {
    pub(crate) fn new(function: &str, what: impl fmt::Display) -> CompileError {
        CompileError { function: Some(function.to_owned()), what: what.to_string() }
    }

    pub(crate) fn general(what: impl fmt::Display) -> CompileError {
        CompileError { function: None, what: what.to_string() }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => write!(formatter, "`{function}` cannot be compiled: {}", self.what),
            None => write!(formatter, "nothing can be compiled here: {}", self.what),
        }
    }
}

impl std::error::Error for CompileError {}
