//! Reads the stack expressions of the command line, and reports their errors.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use stack::syntax::{self, Base, Branch, BranchTree, Mode, Span, Spanned, Stack};
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

    /// Reads a branch whose path has blanks or punctuation in it and is not quoted, as in `/srv/my data=ro`: the path of something that
    /// exists. `None` if it is none.
    pub(crate) fn read_path(argument: &OsStr) -> Option<Outcome<Expression>> {
        let bytes = argument.as_bytes();
        let modes = [Mode::ReadWrite, Mode::ReadOnly, Mode::NoCreate];
        let with_mode = modes.into_iter().find_map(|mode| {
            let path = bytes.strip_suffix(format!("={mode}").as_bytes())?;
            Some((path, Some(Spanned::new(mode, Span::default()))))
        });
        let (path, mode) = with_mode.unwrap_or((bytes, None));
        let path = OsStr::from_bytes(path);
        let is_path = path.as_bytes().contains(&b'/') && Path::new(path).symlink_metadata().is_ok();
        is_path.then(|| {
            let mut branch = directory_branch(path.to_owned());
            branch.value.mode = mode;
            Expression::read(Stack { source: vec![branch], layers: Vec::new() }.to_string().as_ref())
        })
    }

    /// Returns whether a word is a stack rather than the path of a directory: one with layers, with several branches, or with a kind of
    /// base.
    pub(crate) fn is_more_than_a_path(word: &Path) -> bool {
        let parsed = syntax::parse(&syntax::from_argument(word.as_os_str()));
        parsed.is_ok_and(|stack| {
            let has_kind = |branch: &Spanned<Branch>| match &branch.value.tree {
                BranchTree::Base(base) => base.kind.is_some(),
                BranchTree::Stack(_) => true,
            };
            !stack.layers.is_empty() || stack.source.len() > 1 || stack.source.iter().any(has_kind)
        })
    }

    /// Returns what is probably not meant: branches that no change can reach, and those that are in each other.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        add_warnings(&self.stack, &mut warnings);
        warnings
    }

    /// Reads the stack of a mount over a directory: its layers, or the whole stack on the directory, as /etc/fstab names it.
    ///
    /// # Errors
    /// Those of the syntax; `Usage` for a stack that is on something else.
    pub(crate) fn read_over(directory: &Path, argument: &OsStr) -> Outcome<Expression> {
        let text = syntax::from_argument(argument);
        let whole = syntax::parse(&text).ok().filter(has_base);
        let mut stack = match whole {
            Some(stack) if is_on(&stack, directory) => stack,
            Some(_) => {
                let name = directory.display();
                let remedy = "write only its layers, or mount it without 'over'";
                return Err(Failure::new(
                    Exit::Usage,
                    format!("this stack is not on {name}, its mount point; {remedy}"),
                ));
            }
            None => {
                let layers = syntax::parse_layers(&text).map_err(|error| failure(&error.into(), &text))?;
                Stack { source: vec![directory_branch(directory.as_os_str().to_owned())], layers }
            }
        };
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

/// Returns whether a text that can be read as a stack is not a list of layers: it begins with a base of a kind, or with the path of
/// something other than a FiST program, or it has several branches.
fn has_base(stack: &Stack) -> bool {
    match &stack.source[..] {
        [branch] => match &branch.value.tree {
            BranchTree::Base(base) => {
                let location = base.location.value.as_bytes();
                base.kind.is_some() || location.contains(&b'/') && !location.ends_with(b".fist")
            }
            BranchTree::Stack(_) => true,
        },
        _ => true,
    }
}

/// Returns whether a stack is on this directory alone.
fn is_on(stack: &Stack, directory: &Path) -> bool {
    let [branch] = &stack.source[..] else { return false };
    let base = canonical_directory(&branch.value.tree);
    base.is_some() && base == fs::canonicalize(directory).ok()
}

fn add_warnings(stack: &Stack, warnings: &mut Vec<String>) {
    let inner = stack.source.iter().filter_map(|branch| match &branch.value.tree {
        BranchTree::Stack(inner) => Some(inner),
        BranchTree::Base(_) => None,
    });
    inner.for_each(|inner| add_warnings(inner, warnings));
    let mode = |branch: &Spanned<Branch>| branch.value.mode.as_ref().map(|mode| mode.value);
    if let Some((first, others)) = stack.source.split_first()
        && mode(first).is_some_and(|mode| mode != Mode::ReadWrite)
        && others.iter().any(|other| mode(other) == Some(Mode::ReadWrite))
    {
        let first = Branch { mode: None, ..first.value.clone() };
        warnings.push(format!(
            "no branch before {first} can be written, so that what is in it cannot be changed; put one with =rw before it"
        ));
    }
    let paths: Vec<PathBuf> =
        stack.source.iter().filter_map(|branch| canonical_directory(&branch.value.tree)).collect();
    for (index, path) in paths.iter().enumerate() {
        warnings.extend(paths[..index].iter().filter_map(|other| overlap(other, path)));
    }
}

/// Returns a warning if two branches are one directory, or one is in the other.
fn overlap(one: &Path, other: &Path) -> Option<String> {
    let (inner, outer) = match () {
        () if one == other => {
            return Some(format!("the branch {} is given twice; leave one of them out", one.display()));
        }
        () if one.starts_with(other) => (one, other),
        () if other.starts_with(one) => (other, one),
        () => return None,
    };
    let (inner, outer) = (inner.display(), outer.display());
    Some(format!(
        "the branch {inner} is in the branch {outer}, so that each shows changes of the other; choose one beside it"
    ))
}

/// Returns the directory of a branch without symlinks, if the branch is one.
fn canonical_directory(tree: &BranchTree) -> Option<PathBuf> {
    match tree {
        BranchTree::Base(base) if is_directory(base) => fs::canonicalize(&base.location.value).ok(),
        _ => None,
    }
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
        BuildProblem::Syntax(_) | BuildProblem::SeveralBranches { .. } | BuildProblem::ModeOfOnlyBranch(_) => {
            Exit::Expression
        }
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
