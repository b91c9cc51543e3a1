//! A lower tree of a fan-out layer, and how one is opened while the layer is in use.

use std::fmt;
use std::sync::Arc;

use vnode::FileSystemRef;

/// A lower tree of a fan-out layer.
#[derive(Clone)]
pub struct Branch {
    /// File system of the branch.
    pub file_system: FileSystemRef,
    /// Access mode of the branch, if one was given.
    pub mode: Option<BranchMode>,
    /// Stack expression of the branch, which names it in messages and identifies it after a restart.
    pub label: String,
}

/// Opens a branch given as in a stack expression, such as `/srv/new=ro`; the error describes the problem.
pub type BranchOpener = Arc<dyn Fn(&str) -> Result<Branch, String> + Send + Sync>;

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
