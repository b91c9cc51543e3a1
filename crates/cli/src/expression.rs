//! Reads the stack expressions of the command line, and reports their errors.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use stack::syntax::{self, Base, Branch, BranchTree, Span, Spanned, Stack};
use stack::{BuildError, BuildProblem, DeviceError, OpenBranch, OpenError};
use vnode::FileSystemRef;

use crate::exit::{Exit, Failure, Outcome};
use crate::output::notify;
use crate::registry::registry;

/// An expression with its text, so that errors can show their location.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    text: String,
    stack: Stack,
}

impl Expression {
    /// Reads a stack. Relative paths in it are made absolute.
    pub(crate) fn read(argument: &OsStr) -> Outcome<Expression> {
        let text = syntax::from_argument(argument);
        let mut stack = syntax::parse(&text).map_err(|error| failure(&error.into(), &text))?;
        registry().make_absolute(&mut stack, &working_directory()?);
        Ok(Expression { text, stack })
    }

    /// Reads the layers for a directory that is to be mounted over.
    pub(crate) fn read_over(directory: &Path, argument: &OsStr) -> Outcome<Expression> {
        let text = syntax::from_argument(argument);
        let layers = syntax::parse_layers(&text).map_err(|error| failure(&error.into(), &text))?;
        let mut stack = Stack { source: vec![directory_branch(directory.as_os_str().to_owned())], layers };
        registry().make_absolute(&mut stack, &working_directory()?);
        Ok(Expression { text, stack })
    }

    /// Builds the stack, with a warning for each branch that is left out.
    pub(crate) fn build(&self) -> Outcome<FileSystemRef> {
        let warn = &mut |error: &stack::BuildError| {
            // A server that has detached from its terminal has its log.
            notify(&format_args!("warning: a branch is left out: {error}"));
        };
        registry().build_reporting(&self.stack, warn).map_err(|error| failure(&error, &self.text))
    }

    /// Builds the stack only to describe its members: changes nothing in it, even while it is mounted.
    pub(crate) fn build_for_description(&self) -> Outcome<FileSystemRef> {
        stack::only_described(|| self.build())
    }

    /// Returns whether it is a single branch, with or without a mode, without layers on it.
    pub(crate) fn is_single_branch(&self) -> bool {
        self.stack.source.len() == 1 && self.stack.layers.is_empty()
    }

    /// Opens the branches that the first layer joins, or, without any layer, the branches that it names.
    pub(crate) fn build_branches(&self) -> Outcome<Vec<OpenBranch>> {
        let branches = registry().build_branches(&self.stack).ok_or_else(|| {
            let message =
                "the first layer of this stack joins no branches; name the branches, or the stack as it is mounted";
            Failure::new(Exit::Expression, message)
        })?;
        branches.map_err(|error| failure(&error, &self.text))
    }

    /// Returns the directories that it is on, as far as it names them.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        add_directories(&self.stack, &mut directories);
        directories
    }

    /// Returns the expression in its canonical form with absolute paths: it means the same wherever it is read.
    pub(crate) fn canonical_form(&self) -> String {
        self.stack.to_string()
    }
}

fn directory_branch(path: OsString) -> Spanned<Branch> {
    let base = Base { kind: None, location: Spanned::new(path, Span::default()), arguments: Vec::new() };
    Spanned::new(Branch { tree: BranchTree::Base(base), mode: None, options: Vec::new() }, Span::default())
}

fn add_directories(stack: &Stack, directories: &mut Vec<PathBuf>) {
    for branch in &stack.source {
        match &branch.value.tree {
            BranchTree::Stack(inner) => add_directories(inner, directories),
            BranchTree::Base(base) if is_directory(base) => {
                directories.extend(stack::directories_at(Path::new(&base.location.value)));
            }
            BranchTree::Base(_) => {}
        }
    }
}

/// Returns whether a base is a directory; one that is missing may be.
fn is_directory(base: &Base) -> bool {
    match &base.kind {
        Some(kind) => kind.value == stack::kinds::DIRECTORY,
        None => fs::metadata(&base.location.value).map_or(true, |metadata| metadata.is_dir()),
    }
}

fn working_directory() -> Outcome<PathBuf> {
    std::env::current_dir().map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot determine the current directory: {error}; change to another: cd /"))
    })
}

fn failure(error: &BuildError, text: &str) -> Failure {
    let exit = match &error.problem {
        _ if error.is_in_use() => Exit::Busy,
        BuildProblem::Option(option) if option.is_failed_branch() => Exit::Stack,
        BuildProblem::Syntax(_) | BuildProblem::SeveralBranches | BuildProblem::ModeOfOnlyBranch(_) => Exit::Expression,
        BuildProblem::UnknownBase { .. }
        | BuildProblem::NoPath(_)
        | BuildProblem::UnknownLayer { .. }
        | BuildProblem::Description(_)
        | BuildProblem::FanOut { .. }
        | BuildProblem::Option(_)
        | BuildProblem::NotUtf8 { .. }
        | BuildProblem::NoBaseOptions { .. }
        | BuildProblem::Location(_) => Exit::Unknown,
        BuildProblem::Directory(OpenError::NoPermission(_)) | BuildProblem::Device(DeviceError::NoPermission(_)) => {
            Exit::Permission
        }
        BuildProblem::Directory(_)
        | BuildProblem::Device(_)
        | BuildProblem::Unrecognised { .. }
        | BuildProblem::Volume { .. }
        | BuildProblem::Contents(_) => Exit::Stack,
    };
    if let BuildProblem::Description(_) = &error.problem {
        return Failure::from_lines(exit, &error.to_string());
    }
    let failure = Failure::new(exit, error);
    if error.names_object() { failure } else { failure.with_excerpt(error.span.excerpt(text)) }
}
