//! Builds the parts of an expression: bases, branches, and the layers on them.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use layers::OptionError;
use layers::described::Prepared;
use layers::options::Options;
use layers::sizes::parse_size;
use vnode::FileSystemRef;

use super::error::{BuildError, BuildProblem};
use super::loaded_program::LoadedProgram;
use super::patterns::{self, BranchPattern, RunningBranches, expand, label};
use crate::kinds::{self, BaseError};
use crate::registry::Registry;
use crate::syntax::{Argument, Base, Branch, BranchTree, Layer, LayerName, Mode, Span, Spanned, Stack};

/// Builds one stack of the kinds in a registry.
pub(crate) struct Builder<'a> {
    pub(crate) registry: &'a Registry,
    /// Called with each branch that is left out because it does not exist.
    pub(crate) report_missing: &'a mut dyn FnMut(&BuildError),
}

impl Builder<'_> {
    /// Opens the bases and stacks the layers on them.
    pub(crate) fn build(&mut self, stack: &Stack) -> Result<FileSystemRef, BuildError> {
        let Some((first, others)) = stack.layers.split_first() else { return self.build_source(&stack.source) };
        let joined = if self.registry.joins_branches(&first.value) {
            self.build_joined(&stack.source, &first.value)?
        } else if stack.source.len() == 1 {
            let source = self.build_source(&stack.source)?;
            return self.registry.build_layers(source, &stack.layers);
        } else if let Some(path) = self.registry.program_path(&first.value) {
            self.build_fan_out(&stack.source, &first.value, &path)?
        } else {
            self.registry.kind_and_options(&first.value)?;
            return Err(self.several_branches(&stack.source));
        };
        self.registry.build_layers(joined, others)
    }

    /// Opens all branches and stacks a FiST program on them.
    fn build_fan_out(
        &mut self,
        source: &[Spanned<Branch>],
        layer: &Layer,
        path: &Path,
    ) -> Result<FileSystemRef, BuildError> {
        let program =
            LoadedProgram::read_for_fan_out(path, source.len()).map_err(|problem| layer_error(problem, layer))?;
        let pairs = options(layer)?;
        let mut branches = Vec::with_capacity(source.len());
        for branch in source {
            if let Some(mode) = &branch.value.mode {
                return Err(BuildError::new(BuildProblem::ModeOfOnlyBranch(mode.value), mode.span));
            }
            branches.push(self.build_tree(&branch.value.tree)?);
        }
        let prepared = program.prepare(path, &pairs).map_err(|error| layer_option_error(error, layer))?;
        Ok(layers::described::stack(vec![prepared], branches))
    }

    /// Opens all branches and joins them.
    fn build_joined(&mut self, source: &[Spanned<Branch>], layer: &Layer) -> Result<FileSystemRef, BuildError> {
        let (kind, pairs) = self.registry.kind_and_options(layer)?;
        let omits_missing =
            kind.leaves_out_missing_branches(&pairs).map_err(|error| layer_option_error(error, layer))?;
        let (mut branches, mut missing, mut last) = (Vec::with_capacity(source.len()), Vec::new(), None);
        let (expanded, patterns) = expand(source);
        for branch in &expanded {
            match self.open_matching_branch(branch, &patterns) {
                Ok(branch) => branches.push(branch),
                Err(error) if omits_missing && error.is_missing() => {
                    tracing::warn!(%error, "a branch is left out");
                    (self.report_missing)(&error);
                    missing.push(label(branch));
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let (true, Some(error)) = (branches.is_empty(), last) {
            return Err(error);
        }
        let registry = self.registry.clone();
        let opener = Arc::new(RunningBranches::new(move |text: &str| registry.open_branch(text), patterns));
        kind.join_without(&pairs, branches, missing, Some(opener)).map_err(|error| layer_option_error(error, layer))
    }

    /// Opens all of these branches, with those that match patterns among them.
    pub(crate) fn open_all_branches(&mut self, source: &[Spanned<Branch>]) -> Result<Vec<layers::Branch>, BuildError> {
        let (expanded, patterns) = expand(source);
        expanded.iter().map(|branch| self.open_matching_branch(branch, &patterns)).collect()
    }

    /// Opens a branch, which may be a match of one of the patterns.
    fn open_matching_branch(
        &mut self,
        branch: &Branch,
        patterns: &[BranchPattern],
    ) -> Result<layers::Branch, BuildError> {
        let opened = self.open_branch(branch)?;
        let span = if let BranchTree::Base(base) = &branch.tree { base.location.span } else { Span::default() };
        patterns::check_opened(patterns, branch, &opened)
            .map_err(|reason| BuildError::new(BuildProblem::Location(reason), span))?;
        Ok(opened)
    }

    /// Opens a branch.
    fn open_branch(&mut self, branch: &Branch) -> Result<layers::Branch, BuildError> {
        let Branch { tree, mode, options } = branch;
        let minimum_free = minimum_free(options, mode.as_ref().map(|mode| mode.span).unwrap_or_default())?;
        let mode = mode.as_ref().map(|mode| match mode.value {
            Mode::ReadWrite => layers::BranchMode::ReadWrite,
            Mode::ReadOnly => layers::BranchMode::ReadOnly,
            Mode::NoCreate => layers::BranchMode::NoCreate,
        });
        Ok(layers::Branch { file_system: self.build_tree(tree)?, mode, label: label(branch), minimum_free })
    }

    fn build_source(&mut self, source: &[Spanned<Branch>]) -> Result<FileSystemRef, BuildError> {
        let [branch] = source else { return Err(self.several_branches(source)) };
        if let Some(mode) = &branch.value.mode {
            return Err(BuildError::new(BuildProblem::ModeOfOnlyBranch(mode.value), mode.span));
        }
        self.build_tree(&branch.value.tree)
    }

    /// Returns the error of several branches that nothing joins, which names the layers that can.
    fn several_branches(&self, source: &[Spanned<Branch>]) -> BuildError {
        let joining =
            self.registry.layers().iter().filter(|kind| kind.joins_branches()).map(|kind| kind.name).collect();
        BuildError::new(BuildProblem::SeveralBranches { joining }, source[1].span)
    }

    fn build_tree(&mut self, tree: &BranchTree) -> Result<FileSystemRef, BuildError> {
        match tree {
            BranchTree::Stack(inner) => self.build(inner),
            BranchTree::Base(base) => self.registry.build_base(base),
        }
    }
}

impl Registry {
    fn build_base(&self, base: &Base) -> Result<FileSystemRef, BuildError> {
        let location = (&*base.location.value, base.location.span);
        let kind = match &base.kind {
            Some(kind) => (kind.value.as_str(), kind.span),
            None => (self.kind_of_path(base)?, base.location.span),
        };
        self.open_base(kind, location, &base.arguments)
    }

    /// Returns the name of the kind of base that a plain path denotes. Everything but a file or block device is a directory, or is
    /// reported as none.
    fn kind_of_path(&self, base: &Base) -> Result<&str, BuildError> {
        let path = Path::new(&base.location.value);
        let is_device = fs::metadata(path).is_ok_and(|metadata| {
            let kind = metadata.file_type();
            kind.is_file() || kind.is_block_device()
        });
        if !is_device || self.bases().iter().all(|kind| kind.probe.is_none()) {
            return Ok(kinds::DIRECTORY);
        }
        let recognised = self.recognise(path, &base.arguments);
        recognised.map(|kind| kind.name).map_err(|problem| BuildError::new(problem, base.location.span))
    }

    /// Opens a base of a kind at a location, each with its location in the expression's text.
    pub(crate) fn open_base(
        &self,
        (name, name_span): (&str, Span),
        (location, location_span): (&OsStr, Span),
        arguments: &[Argument],
    ) -> Result<FileSystemRef, BuildError> {
        let Some(kind) = self.base(name) else {
            let bases = self.bases().iter().map(|kind| kind.name).collect();
            return Err(BuildError::new(BuildProblem::UnknownBase { name: name.to_owned(), bases }, name_span));
        };
        if kind.location_is_path && location.is_empty() {
            return Err(BuildError::new(BuildProblem::NoPath(kind.name), name_span));
        }
        if let (true, Some(first)) = (kind.options.is_empty(), arguments.first()) {
            let problem = BuildProblem::NoBaseOptions { kind: kind.name, location: kind.location };
            return Err(BuildError::new(problem, first.key.span));
        }
        let pairs = pairs(arguments)?;
        let of_option = |error| option_error(error, arguments, location_span);
        let options = Options::new(kind.name, kind.options, &pairs).map_err(of_option)?;
        (kind.open)(location, &options).map_err(|error| match error {
            BaseError::Directory(error) => BuildError::new(BuildProblem::Directory(error), location_span),
            BaseError::Device(error) => BuildError::new(BuildProblem::Device(error), location_span),
            BaseError::Location(message) => BuildError::new(BuildProblem::Location(message), location_span),
            BaseError::Contents(message) => BuildError::new(BuildProblem::Contents(message), location_span),
            BaseError::Option(error) => of_option(error),
        })
    }

    /// Stacks layers on a file system.
    ///
    /// # Errors
    /// As [`Registry::build`].
    pub fn build_layers(
        &self,
        mut file_system: FileSystemRef,
        layers: &[Spanned<Layer>],
    ) -> Result<FileSystemRef, BuildError> {
        // FiST programs directly on each other may become one layer.
        let mut programs = Vec::new();
        for layer in layers {
            match self.program_path(&layer.value) {
                Some(path) => programs.push(prepare(&path, &layer.value)?),
                None => {
                    file_system = stack_programs(&mut programs, file_system);
                    file_system = self.build_layer(file_system, &layer.value)?;
                }
            }
        }
        Ok(stack_programs(&mut programs, file_system))
    }

    /// Returns the file of the FiST program that a layer is, named by its path or by its name on the search path; `None` for a kind of
    /// layer, and for a name that is unknown.
    pub(crate) fn program_path<'a>(&self, layer: &'a Layer) -> Option<Cow<'a, Path>> {
        match &layer.name.value {
            LayerName::Description(path) => Some(Cow::Borrowed(path)),
            LayerName::Name(name) if self.layer(name).is_some() => None,
            LayerName::Name(name) => self.search_path().find(name).ok().map(Cow::Owned),
        }
    }

    /// Returns the problem with a name that is neither that of a kind of layer nor, as far as the search path goes, of a FiST program.
    pub fn unknown_layer(&self, name: &str) -> BuildProblem {
        let layers = self.layers().iter().map(|kind| kind.name).collect();
        let program = self.search_path().find(name).err().map(Box::new);
        BuildProblem::UnknownLayer { name: name.to_owned(), layers, program }
    }

    /// Returns whether the layer joins branches.
    pub(crate) fn joins_branches(&self, layer: &Layer) -> bool {
        match &layer.name.value {
            LayerName::Name(name) => self.layer(name).is_some_and(|kind| kind.joins_branches()),
            LayerName::Description(_) => false,
        }
    }

    fn build_layer(&self, lower: FileSystemRef, layer: &Layer) -> Result<FileSystemRef, BuildError> {
        let (kind, pairs) = self.kind_and_options(layer)?;
        kind.stack(&pairs, lower).map_err(|error| layer_option_error(error, layer))
    }

    /// Returns the kind of a layer, and its options in the form that the kind takes.
    fn kind_and_options(&self, layer: &Layer) -> Result<(&layers::Kind, Vec<Pair>), BuildError> {
        let name = match &layer.name.value {
            LayerName::Name(name) => name,
            LayerName::Description(_) => unreachable!("descriptions are built by themselves"),
        };
        let Some(kind) = self.layer(name) else {
            return Err(BuildError::new(self.unknown_layer(name), layer.name.span));
        };
        Ok((kind, options(layer)?))
    }

    /// Opens a branch for a running stack, written as in an expression.
    fn open_branch(&self, text: &str) -> Result<(Branch, layers::Branch), String> {
        let stack = crate::syntax::parse(text).map_err(|error| error.to_string())?;
        match (&stack.source[..], &stack.layers[..]) {
            ([branch], []) => {
                let mut builder = Builder { registry: self, report_missing: &mut |_| {} };
                let opened = builder.open_branch(&branch.value).map_err(|error| error.to_string())?;
                Ok((branch.value.clone(), opened))
            }
            _ => Err("one branch is expected, a stack of its own in parentheses".to_owned()),
        }
    }
}

/// Returns the number of bytes that are to be left free in a branch with these options, which follow its mode.
fn minimum_free(arguments: &[Argument], mode: Span) -> Result<Option<u64>, BuildError> {
    let pairs = pairs(arguments)?;
    let options = Options::new("branch", layers::BRANCH_OPTIONS, &pairs);
    let minimum = options.and_then(|options| options.read("minimum-free", parse_size));
    minimum.map_err(|error| option_error(error, arguments, mode))
}

/// An option's key and value.
type Pair = (String, String);

/// Returns the options of a layer.
fn options(layer: &Layer) -> Result<Vec<Pair>, BuildError> {
    pairs(&layer.arguments)
}

/// Returns options as text.
fn pairs(arguments: &[Argument]) -> Result<Vec<Pair>, BuildError> {
    let mut pairs = Vec::new();
    for argument in arguments {
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
    program.prepare(path, &options(layer)?).map_err(|error| layer_option_error(error, layer))
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

fn layer_option_error(error: OptionError, layer: &Layer) -> BuildError {
    option_error(error, &layer.arguments, layer.name.span)
}

/// Returns an option error with its location: the option's value, its key, or that of the layer or base for an option that is missing.
fn option_error(error: OptionError, arguments: &[Argument], of_member: Span) -> BuildError {
    let span = match arguments.iter().rfind(|argument| argument.key.value == error.key) {
        Some(argument) if error.is_about_value() => argument.value.span,
        Some(argument) => argument.key.span,
        None => of_member,
    };
    BuildError::new(BuildProblem::Option(error), span)
}
