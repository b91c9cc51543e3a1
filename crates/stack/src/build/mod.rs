//! Builds a stack from its expression.

mod builder;
mod descriptions;
mod error;
mod loaded_program;
mod paths;
mod patterns;
mod recognition;

use std::path::Path;

use vnode::FileSystemRef;

pub use descriptions::{build_description, build_descriptions, fan_out, merge_barrier};
pub use error::{BuildError, BuildProblem};
pub use patterns::directories_at;

use builder::Builder;

use crate::kinds;
use crate::registry::Registry;
use crate::syntax::{Span, Stack};

/// Opens the base and stacks the layers on it, of the kinds that Plyfs has.
///
/// # Errors
/// As [`Registry::build`].
pub fn build(stack: &Stack) -> Result<FileSystemRef, BuildError> {
    Registry::default().build(stack)
}

/// Opens a directory without any layer.
///
/// # Errors
/// If it cannot be opened.
pub fn build_directory(path: &Path) -> Result<FileSystemRef, BuildError> {
    let nowhere = Span::default();
    Registry::default().open_base((kinds::DIRECTORY, nowhere), (path.as_os_str(), nowhere), &[])
}

impl Registry {
    /// Opens the base and stacks the layers on it.
    ///
    /// # Errors
    /// Any problem that prevents the stack from being built, with its location in the expression's text.
    pub fn build(&self, stack: &Stack) -> Result<FileSystemRef, BuildError> {
        self.build_reporting(stack, &mut |_| {})
    }

    /// Builds as [`Registry::build`], and reports to `report_missing` each branch that is left out because it does not exist.
    ///
    /// # Errors
    /// As [`Registry::build`].
    pub fn build_reporting(
        &self,
        stack: &Stack,
        report_missing: &mut dyn FnMut(&BuildError),
    ) -> Result<FileSystemRef, BuildError> {
        Builder { registry: self, report_missing }.build(stack)
    }

    /// Opens the branches that a stack joins: those of its union, or all that it names if it has no layer.
    ///
    /// # Errors
    /// As [`Registry::build`], except for [`BuildProblem::SeveralBranches`]. `None` for a stack whose first layer is not a union.
    pub fn build_branches(&self, stack: &Stack) -> Option<Result<Vec<layers::Branch>, BuildError>> {
        let mut builder = Builder { registry: self, report_missing: &mut |_| {} };
        let is_joined = stack.layers.first().is_none_or(|layer| self.joins_branches(&layer.value));
        is_joined.then(|| builder.open_all_branches(&stack.source))
    }
}

#[cfg(test)]
mod tests;
