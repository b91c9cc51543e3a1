//! Reasons why a directory cannot be served, with remedies.

use std::fmt;
use std::path::PathBuf;

use vnode::{Errno, shortage};

/// The reason why a directory cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The path does not exist.
    Missing(PathBuf),
    /// The path is not a directory.
    NotADirectory(PathBuf),
    /// Reaching or reading the directory is not permitted.
    NoPermission(PathBuf),
    /// /proc, through which open objects are named, is not mounted.
    NoProc,
    /// Any other error.
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
