//! Reasons why a directory cannot be served, with remedies.

use std::fmt;
use std::path::{Path, PathBuf};

use vnode::{Errno, NameBuf, shortage};

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
    /// The directory is in the only mount that this process serves, which would wait for itself: see
    /// [`declare_single_mount`](super::declare_single_mount).
    OwnMount(PathBuf),
    /// A directory to be attached is on another mount than the directory that is served, in it, or around it.
    NotBeside(PathBuf),
    /// A directory to be attached belongs to another directory than the one that is served.
    BelongsToAnother(PathBuf),
    /// An object in the root has the name of what is to be attached.
    NameTaken(NameBuf),
    /// Any other error.
    Failed(PathBuf, Errno),
}

impl OpenError {
    /// Returns the reason for an error of opening the directory with that path.
    pub fn of(path: &Path, errno: Errno) -> Self {
        let path = path.to_path_buf();
        match errno {
            Errno::ENOENT => Self::Missing(path),
            Errno::ENOTDIR => Self::NotADirectory(path),
            Errno::EACCES | Errno::EPERM => Self::NoPermission(path),
            errno => Self::Failed(path, errno),
        }
    }
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
            Self::OwnMount(path) => write!(
                formatter,
                "`{}` is in a mount of the same server, which would wait for itself: name a directory beside the mount",
                path.display()
            ),
            Self::NotBeside(path) => write!(
                formatter,
                "`{}` must be on the same mount as the directory that is served, and neither in it nor around it: choose \
                 another directory there",
                path.display()
            ),
            Self::BelongsToAnother(path) => write!(
                formatter,
                "`{}` belongs to another directory than the one that is served, or this is a copy of that: give each a work directory \
                 of its own",
                path.display()
            ),
            Self::NameTaken(name) => {
                write!(
                    formatter,
                    "the directory has an object `{0}` already: move `{0}` away",
                    name.as_name().display()
                )
            }
            Self::Failed(path, errno) => {
                let remedy = shortage::remedy(&(*errno).into());
                write!(formatter, "cannot open the directory `{}`: {errno}{remedy}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {}
