//! Why a directory cannot be served, with what to do about it.

use std::fmt;
use std::path::PathBuf;

use vnode::{Errno, shortage};

/// Why a directory cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is nothing by that path.
    Missing(PathBuf),
    /// It is something else.
    NotADirectory(PathBuf),
    /// The way to it, or reading it, is not allowed.
    NoPermission(PathBuf),
    /// /proc is not mounted, through which open objects are named.
    NoProc,
    /// Anything else.
    Failed(PathBuf, Errno),
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => {
                write!(formatter, "there is no directory `{}`: check the path, or create it first", path.display())
            }
            Self::NotADirectory(path) => {
                write!(formatter, "`{}` is not a directory: name the directory that it is in", path.display())
            }
            Self::NoPermission(path) => write!(
                formatter,
                "no permission to open `{}`: run as a user who may search and read it",
                path.display()
            ),
            Self::NoProc => formatter.write_str("/proc is not there: mount it (mount -t proc proc /proc)"),
            Self::Failed(path, errno) => {
                let remedy = shortage::remedy(&(*errno).into());
                write!(formatter, "cannot open the directory `{}`: {errno}{remedy}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {}
