//! Stacks FiST programs that are not part of an expression.

use std::path::Path;

use layers::described::Prepared;
use vnode::FileSystemRef;

use super::error::{BuildError, BuildProblem};
use super::loaded_program::LoadedProgram;
use crate::syntax::Span;

/// Stacks a FiST program on as many file systems as it declares.
///
/// # Errors
/// As [`build`](super::build).
pub fn build_description(
    path: &Path,
    options: &[(String, String)],
    branches: Vec<FileSystemRef>,
) -> Result<FileSystemRef, BuildError> {
    build_descriptions(&[(path, options)], branches)
}

/// Stacks FiST programs, the lowest first, with their options on as many file systems as the first declares.
///
/// # Errors
/// As [`build`](super::build).
pub fn build_descriptions(
    lowest_first: &[(&Path, &[(String, String)])],
    branches: Vec<FileSystemRef>,
) -> Result<FileSystemRef, BuildError> {
    let mut below = branches.len();
    let mut prepared = Vec::with_capacity(lowest_first.len());
    for (path, options) in lowest_first {
        prepared.push(prepare_standalone(path, options, below)?);
        below = 1;
    }
    Ok(layers::described::stack(prepared, branches))
}

/// Returns why a FiST program cannot become one layer with the one that it is to be stacked on, as text; `None` if it
/// can.
///
/// # Errors
/// If one cannot be read or has errors.
pub fn merge_barrier(upper: &Path, lower: &Path) -> Result<Option<String>, BuildError> {
    let (upper, lower) = (prepare_standalone(upper, &[], 1)?, prepare_standalone(lower, &[], fan_out(lower)?)?);
    Ok(upper.barrier(&lower))
}

/// Reads a FiST program that is not part of an expression.
fn prepare_standalone(path: &Path, options: &[(String, String)], below: usize) -> Result<Prepared, BuildError> {
    let error = |problem| BuildError::new(problem, Span::default());
    let program = LoadedProgram::read_for_fan_out(path, below).map_err(error)?;
    program.prepare(path, options).map_err(|option| error(BuildProblem::Option(option)))
}

/// Returns the number of file systems that a FiST program is stacked on.
///
/// # Errors
/// If it cannot be read or has errors.
pub fn fan_out(path: &Path) -> Result<usize, BuildError> {
    let program = LoadedProgram::read(path).map_err(|problem| BuildError::new(problem, Span::default()))?;
    Ok(program.fan_out())
}
