//! Builds a stack from its expression: the one place that knows every kind of base and layer.

mod error;
mod loaded_program;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use layers::OptionError;
use layers::described::Prepared;
use vnode::FileSystemRef;

pub use error::{BuildError, BuildProblem};

use loaded_program::LoadedProgram;

use crate::kinds::{self, BaseError};
use crate::syntax::{Base, Branch, BranchTree, Layer, LayerName, Mode, Span, Spanned, Stack};

/// Opens the base and stacks the layers on it.
///
/// # Errors
/// Any problem that prevents the stack from being built, with its location in the expression's text.
pub fn build(stack: &Stack) -> Result<FileSystemRef, BuildError> {
    build_reporting(stack, &mut |_| {})
}

/// As [`build`], and reports to `report_missing` each branch that is left out because it does not exist.
///
/// # Errors
/// As [`build`].
pub fn build_reporting(
    stack: &Stack,
    report_missing: &mut dyn FnMut(&BuildError),
) -> Result<FileSystemRef, BuildError> {
    match stack.layers.split_first() {
        Some((first, others)) if joins_branches(&first.value) => {
            build_layers(build_joined(&stack.source, &first.value, report_missing)?, others)
        }
        Some((first, others)) if stack.source.len() > 1 && is_fist_program(&first.value) => {
            build_layers(build_fan_out(&stack.source, &first.value, report_missing)?, others)
        }
        _ => build_layers(build_source(&stack.source, report_missing)?, &stack.layers),
    }
}

fn is_fist_program(layer: &Layer) -> bool {
    matches!(layer.name.value, LayerName::Description(_))
}

/// Opens all branches and stacks a FiST program on them.
fn build_fan_out(
    source: &[Spanned<Branch>],
    layer: &Layer,
    report_missing: &mut dyn FnMut(&BuildError),
) -> Result<FileSystemRef, BuildError> {
    let LayerName::Description(path) = &layer.name.value else { unreachable!("the layer is a description") };
    let program = LoadedProgram::read_for_fan_out(path, source.len()).map_err(|problem| layer_error(problem, layer))?;
    let pairs = options(layer)?;
    let mut branches = Vec::with_capacity(source.len());
    for branch in source {
        if let Some(mode) = &branch.value.mode {
            return Err(BuildError::new(BuildProblem::ModeOfOnlyBranch(mode.value), mode.span));
        }
        branches.push(build_tree(&branch.value.tree, report_missing)?);
    }
    let prepared = program.prepare(path, &pairs).map_err(|error| option_error(error, layer))?;
    Ok(layers::described::stack(vec![prepared], branches))
}

/// Opens the branches that a stack joins: those of its union, or all that it names if it has no layer.
///
/// # Errors
/// As [`build`], except for [`BuildProblem::SeveralBranches`]. `None` for a stack whose first layer is not a union.
pub fn build_branches(stack: &Stack) -> Option<Result<Vec<layers::Branch>, BuildError>> {
    let is_joined = stack.layers.first().is_none_or(|layer| joins_branches(&layer.value));
    is_joined.then(|| stack.source.iter().map(|branch| open_branch(&branch.value, &mut |_| {})).collect())
}

/// Returns whether the layer joins branches.
fn joins_branches(layer: &Layer) -> bool {
    match &layer.name.value {
        LayerName::Name(name) => layers::kind(name).is_some_and(|kind| kind.joins_branches()),
        LayerName::Description(_) => false,
    }
}

/// Opens all branches and joins them.
fn build_joined(
    source: &[Spanned<Branch>],
    layer: &Layer,
    report_missing: &mut dyn FnMut(&BuildError),
) -> Result<FileSystemRef, BuildError> {
    let (kind, pairs) = kind_and_options(layer)?;
    let omits_missing = kind.leaves_out_missing_branches(&pairs).map_err(|error| option_error(error, layer))?;
    let (mut branches, mut missing, mut last) = (Vec::with_capacity(source.len()), Vec::new(), None);
    for branch in source {
        match open_branch(&branch.value, report_missing) {
            Ok(branch) => branches.push(branch),
            Err(error) if omits_missing && error.is_missing() => {
                tracing::warn!(%error, "a branch is left out");
                report_missing(&error);
                missing.push(label(&branch.value));
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let (true, Some(error)) = (branches.is_empty(), last) {
        return Err(error);
    }
    kind.join_without(&pairs, branches, missing, Some(Arc::new(open_branch_from_text)))
        .map_err(|error| option_error(error, layer))
}

/// Opens a branch.
fn open_branch(branch: &Branch, report_missing: &mut dyn FnMut(&BuildError)) -> Result<layers::Branch, BuildError> {
    let Branch { tree, mode } = branch;
    let mode = mode.as_ref().map(|mode| match mode.value {
        Mode::ReadWrite => layers::BranchMode::ReadWrite,
        Mode::ReadOnly => layers::BranchMode::ReadOnly,
        Mode::NoCreate => layers::BranchMode::NoCreate,
    });
    Ok(layers::Branch { file_system: build_tree(tree, report_missing)?, mode, label: label(branch) })
}

/// Returns the label of a branch: its expression, without a mode.
fn label(branch: &Branch) -> String {
    Branch { tree: branch.tree.clone(), mode: None }.to_string()
}

/// Opens a branch for a running stack, written as in an expression.
fn open_branch_from_text(text: &str) -> Result<layers::Branch, String> {
    let stack = crate::syntax::parse(text).map_err(|error| error.to_string())?;
    match (&stack.source[..], &stack.layers[..]) {
        ([branch], []) => open_branch(&branch.value, &mut |_| {}).map_err(|error| error.to_string()),
        _ => Err("one branch is expected, a stack of its own in parentheses".to_owned()),
    }
}

/// Stacks layers on a file system.
///
/// # Errors
/// As [`build`].
pub fn build_layers(mut file_system: FileSystemRef, layers: &[Spanned<Layer>]) -> Result<FileSystemRef, BuildError> {
    // FiST programs directly on each other may become one layer.
    let mut programs = Vec::new();
    for layer in layers {
        match &layer.value.name.value {
            LayerName::Description(path) => programs.push(prepare(path, &layer.value)?),
            LayerName::Name(_) => {
                file_system = stack_programs(&mut programs, file_system);
                file_system = build_layer(file_system, &layer.value)?;
            }
        }
    }
    Ok(stack_programs(&mut programs, file_system))
}

/// Stacks a FiST program on as many file systems as it declares.
///
/// # Errors
/// As [`build`].
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
/// As [`build`].
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

/// Opens a directory without any layer.
///
/// # Errors
/// If it cannot be opened.
pub fn build_directory(path: &Path) -> Result<FileSystemRef, BuildError> {
    open(kinds::DIRECTORY, Span::default(), path.as_os_str(), Span::default())
}

/// Makes every path in the expression absolute, relative to `directory`: a server leaves the directory in which it was
/// started.
pub fn make_absolute(stack: &mut Stack, directory: &Path) {
    for branch in &mut stack.source {
        match &mut branch.value.tree {
            BranchTree::Stack(inner) => make_absolute(inner, directory),
            BranchTree::Base(base) => {
                let kind = base.kind.as_ref().map_or(kinds::DIRECTORY, |kind| &kind.value);
                if kinds::base(kind).is_some_and(|kind| kind.location_is_path) && !base.location.value.is_empty() {
                    base.location.value = directory.join(&base.location.value).into_os_string();
                }
            }
        }
    }
    make_layers_absolute(&mut stack.layers, directory);
}

/// Makes every path in the layers absolute: those of FiST programs, and values of options that are files.
pub fn make_layers_absolute(layers: &mut [Spanned<Layer>], directory: &Path) {
    for layer in layers {
        let kind = match &mut layer.value.name.value {
            LayerName::Description(path) => {
                *path = directory.join(&path);
                continue;
            }
            LayerName::Name(name) => layers::kind(name),
        };
        for argument in &mut layer.value.arguments {
            let option = kind.and_then(|kind| kind.options.iter().find(|option| option.key == argument.key.value));
            if option.is_some_and(|option| is_path(option.value, &argument.value.value)) {
                argument.value.value = directory.join(&argument.value.value).into_os_string();
            }
        }
    }
}

/// Returns whether the value of an option with this form, such as `FILE|stderr`, is a path rather than one of the
/// words.
fn is_path(form: &str, value: &OsStr) -> bool {
    let mut alternatives = form.split('|');
    !value.is_empty()
        && alternatives.clone().any(|word| matches!(word, "FILE" | "PATH" | "DIRECTORY"))
        && !alternatives.any(|word| OsStr::new(word) == value)
}

fn build_source(
    source: &[Spanned<Branch>],
    report_missing: &mut dyn FnMut(&BuildError),
) -> Result<FileSystemRef, BuildError> {
    let [branch] = source else {
        return Err(BuildError::new(BuildProblem::SeveralBranches, source[1].span));
    };
    if let Some(mode) = &branch.value.mode {
        return Err(BuildError::new(BuildProblem::ModeOfOnlyBranch(mode.value), mode.span));
    }
    build_tree(&branch.value.tree, report_missing)
}

fn build_tree(tree: &BranchTree, report_missing: &mut dyn FnMut(&BuildError)) -> Result<FileSystemRef, BuildError> {
    match tree {
        BranchTree::Stack(inner) => build_reporting(inner, report_missing),
        BranchTree::Base(base) => build_base(base),
    }
}

fn build_base(base: &Base) -> Result<FileSystemRef, BuildError> {
    match &base.kind {
        Some(kind) => open(&kind.value, kind.span, &base.location.value, base.location.span),
        None => open(kinds::DIRECTORY, base.location.span, &base.location.value, base.location.span),
    }
}

fn open(name: &str, name_span: Span, location: &OsStr, location_span: Span) -> Result<FileSystemRef, BuildError> {
    let Some(kind) = kinds::base(name) else {
        return Err(BuildError::new(BuildProblem::UnknownBase(name.to_owned()), name_span));
    };
    if kind.location_is_path && location.is_empty() {
        return Err(BuildError::new(BuildProblem::NoPath(kind.name), name_span));
    }
    (kind.open)(location).map_err(|error| {
        let problem = match error {
            BaseError::Directory(error) => BuildProblem::Directory(error),
            BaseError::Location(message) => BuildProblem::Location(message),
        };
        BuildError::new(problem, location_span)
    })
}

fn build_layer(lower: FileSystemRef, layer: &Layer) -> Result<FileSystemRef, BuildError> {
    let (kind, pairs) = kind_and_options(layer)?;
    kind.stack(&pairs, lower).map_err(|error| option_error(error, layer))
}

/// An option's key and value.
type Pair = (String, String);

/// Returns the kind of a layer, and its options in the form that the kind takes.
fn kind_and_options(layer: &Layer) -> Result<(&'static layers::Kind, Vec<Pair>), BuildError> {
    let name = match &layer.name.value {
        LayerName::Name(name) => name,
        LayerName::Description(_) => unreachable!("descriptions are built by themselves"),
    };
    let Some(kind) = layers::kind(name) else {
        return Err(BuildError::new(BuildProblem::UnknownLayer(name.clone()), layer.name.span));
    };
    Ok((kind, options(layer)?))
}

/// Returns the options of a layer.
fn options(layer: &Layer) -> Result<Vec<Pair>, BuildError> {
    let mut pairs = Vec::new();
    for argument in &layer.arguments {
        let Some(value) = argument.value.value.to_str() else {
            let problem = BuildProblem::NotUtf8 { key: argument.key.value.clone() };
            return Err(BuildError::new(problem, argument.value.span));
        };
        pairs.push((argument.key.value.clone(), value.to_owned()));
    }
    Ok(pairs)
}

/// Reads a FiST program that is to be stacked on one file system.
fn prepare(path: &Path, layer: &Layer) -> Result<Prepared, BuildError> {
    let program = LoadedProgram::read_for_fan_out(path, 1).map_err(|problem| layer_error(problem, layer))?;
    program.prepare(path, &options(layer)?).map_err(|error| option_error(error, layer))
}

/// Stacks the FiST programs, if there are any, on a file system.
fn stack_programs(programs: &mut Vec<Prepared>, lower: FileSystemRef) -> FileSystemRef {
    match programs.is_empty() {
        true => lower,
        false => layers::described::stack(std::mem::take(programs), vec![lower]),
    }
}

fn layer_error(problem: BuildProblem, layer: &Layer) -> BuildError {
    BuildError::new(problem, layer.name.span)
}

fn option_error(error: OptionError, layer: &Layer) -> BuildError {
    let span = option_span(&error, layer);
    BuildError::new(BuildProblem::Option(error), span)
}

/// Returns the location of an option error: the option's value, its key, or the layer for an option that is missing.
fn option_span(error: &OptionError, layer: &Layer) -> Span {
    match layer.arguments.iter().rfind(|argument| argument.key.value == error.key) {
        Some(argument) if error.is_about_value() => argument.value.span,
        Some(argument) => argument.key.span,
        None => layer.name.span,
    }
}

#[cfg(test)]
mod tests;
