//! A kind of layer as whoever builds stacks sees it: its name, what it does, its options, and how to put it on.

use std::fmt;
use std::sync::Arc;

use vnode::FileSystemRef;

use crate::options::{OptionError, OptionSpecification, Options};

/// A kind of layer.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in stack expressions.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The options that it takes.
    pub options: &'static [OptionSpecification],
    pub(crate) build: Build,
}

/// How a layer is put on what is below it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Build {
    /// On one file system.
    Over(fn(&[Pair], FileSystemRef) -> Result<FileSystemRef, OptionError>),
    /// On any number of branches.
    Joining(Join),
}

/// Makes a fan-out layer of its options, its branches, the labels of those that are missing, and what opens later ones.
type Join = fn(&[Pair], Vec<Branch>, Vec<String>, Option<BranchOpener>) -> Result<FileSystemRef, OptionError>;

/// An option's key and value, as a stack expression has them.
type Pair = (String, String);

/// A lower tree of a fan-out layer.
#[derive(Clone)]
pub struct Branch {
    /// The tree.
    pub file_system: FileSystemRef,
    /// How it may be used, if that was said.
    pub mode: Option<BranchMode>,
    /// What it is called in messages and known by after a restart: its stack expression.
    pub label: String,
}

/// Opens a branch that is written as in a stack expression, such as `/srv/new=ro`; the error says in words what is wrong.
pub type BranchOpener = Arc<dyn Fn(&str) -> Result<Branch, String> + Send + Sync>;

/// How a fan-out layer may use a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchMode {
    /// Read and write, new objects included.
    ReadWrite,
    /// Read only.
    ReadOnly,
    /// Read and change what exists, but create nothing.
    NoCreate,
}

impl fmt::Display for BranchMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ReadWrite => "rw",
            Self::ReadOnly => "ro",
            Self::NoCreate => "nc",
        })
    }
}

impl Kind {
    /// Whether it joins several branches.
    pub fn joins_branches(&self) -> bool {
        matches!(self.build, Build::Joining(_))
    }

    /// Whether branches that are not there are left out because the options say so, rather than an error.
    ///
    /// # Errors
    /// For an option that does not exist, or another value of this one.
    pub fn leaves_out_missing_branches(&self, options: &[(String, String)]) -> Result<bool, OptionError> {
        const KEY: &str = "missing";
        let given = Options::new(self.name, self.options, options)?;
        if !self.options.iter().any(|option| option.key == KEY) {
            return Ok(false);
        }
        Ok(given.choice(KEY, &[("fail", false), ("skip", true)])?.unwrap_or(false))
    }

    /// Makes the layer of its options and puts it on `lower`: for a fan-out layer, its only branch.
    ///
    /// # Errors
    /// For an option that does not exist or cannot have that value.
    pub fn stack(&self, options: &[(String, String)], lower: FileSystemRef) -> Result<FileSystemRef, OptionError> {
        match self.build {
            Build::Over(build) => build(options, lower),
            Build::Joining(build) => {
                build(options, vec![Branch { file_system: lower, mode: None, label: String::new() }], Vec::new(), None)
            }
        }
    }

    /// Makes a fan-out layer of its options and joins the branches, the one of highest priority first. Branches can be
    /// added later if there is an opener.
    ///
    /// # Errors
    /// As [`Kind::stack`].
    ///
    /// # Panics
    /// If the layer does not join branches, or there is none.
    pub fn join(
        &self,
        options: &[(String, String)],
        branches: Vec<Branch>,
        opener: Option<BranchOpener>,
    ) -> Result<FileSystemRef, OptionError> {
        self.join_without(options, branches, Vec::new(), opener)
    }

    /// The same, without branches that are not there: the layer tells of these, by their labels.
    ///
    /// # Errors
    /// As [`Kind::stack`].
    ///
    /// # Panics
    /// As [`Kind::join`].
    pub fn join_without(
        &self,
        options: &[(String, String)],
        branches: Vec<Branch>,
        missing: Vec<String>,
        opener: Option<BranchOpener>,
    ) -> Result<FileSystemRef, OptionError> {
        assert!(!branches.is_empty(), "a fan-out layer has at least one branch");
        match self.build {
            Build::Over(_) => panic!("`{}` does not join branches", self.name),
            Build::Joining(build) => build(options, branches, missing, opener),
        }
    }
}
