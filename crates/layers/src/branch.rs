//! A lower tree of a fan-out layer, and where others come from while the layer is in use.

use std::fmt;
use std::sync::Arc;

use vnode::FileSystemRef;

use crate::options::{OptionSpecification, option};

/// A lower tree of a fan-out layer.
#[derive(Clone)]
pub struct Branch {
    /// File system of the branch.
    pub file_system: FileSystemRef,
    /// Access mode of the branch, if one was given.
    pub mode: Option<BranchMode>,
    /// Stack expression of the branch, which names it in messages and identifies it after a restart.
    pub label: String,
    /// Minimum number of bytes to be left free in the branch, if one was given for it: a union that has other branches creates
    /// nothing where less is free.
    pub minimum_free: Option<u64>,
}

/// An option of a branch, given after its mode: `/srv/new=rw(minimum-free=4g)`.
pub const BRANCH_OPTIONS: &[OptionSpecification] = &[option(
    "minimum-free",
    "SIZE",
    "create nothing in the branch while it has less free space, unless all have less",
)];

/// Source of branches for a fan-out layer that is in use.
pub trait BranchSource: Send + Sync {
    /// Opens a branch given as in a stack expression, such as `/srv/new=ro`.
    ///
    /// # Errors
    /// A description of the problem.
    fn open(&self, text: &str) -> Result<Branch, String>;

    /// Evaluates the patterns among the branches of the stack expression again. Default: there are none.
    fn scan(&self) -> BranchScan {
        BranchScan::default()
    }
}

impl<F: Fn(&str) -> Result<Branch, String> + Send + Sync> BranchSource for F {
    fn open(&self, text: &str) -> Result<Branch, String> {
        self(text)
    }
}

/// Source of branches, shared by those that add some.
pub type BranchOpener = Arc<dyn BranchSource>;

/// Present matches of the patterns among the branches of a stack expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchScan {
    /// Matches of each pattern, in the order of the expression.
    pub patterns: Vec<PatternMatches>,
    /// Labels of branches that matched earlier and no longer do.
    pub vanished: Vec<String>,
}

/// Present matches of one pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternMatches {
    /// Label of the pattern itself.
    pub label: String,
    /// The branches that match it, sorted by their paths.
    pub branches: Vec<PatternMatch>,
}

/// A branch that matches a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternMatch {
    /// Label of the branch.
    pub label: String,
    /// The branch as it is opened: with the mode and the options of the pattern.
    pub text: String,
}

/// Access that a fan-out layer has to a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchMode {
    /// Read and write, including the creation of objects.
    ReadWrite,
    /// Read only.
    ReadOnly,
    /// Read and modify existing objects, but create none.
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
