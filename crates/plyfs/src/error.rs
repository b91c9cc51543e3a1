//! Errors: the step that failed, the object that it concerns, and the cause with its remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use frontends::fuse::MountError;
use stack::BuildError;
use vnode::Errno;

/// Reason why an operation on a stack failed.
#[derive(Debug)]
pub enum Error {
    /// The stack cannot be built from its expression.
    Build {
        /// The expression, as it was given.
        expression: String,
        /// The problem, with its column in the expression.
        error: Box<BuildError>,
    },
    /// The current directory, which relative paths in an expression begin at, cannot be found.
    CurrentDirectory(io::Error),
    /// An operation on an object of the stack failed.
    Object {
        /// Path of the object, from the root of the stack.
        path: PathBuf,
        /// The cause.
        errno: Errno,
    },
    /// The stack cannot be mounted.
    Mount {
        /// The mount point, as it was given.
        mount_point: PathBuf,
        /// The cause.
        error: MountError,
    },
    /// The stack is made to be mounted over its own base only.
    NotOverBase {
        /// The mount point, as it was given.
        mount_point: PathBuf,
    },
    /// The stack cannot be unmounted.
    Unmount {
        /// The mount point.
        mount_point: PathBuf,
        /// The cause; `EBUSY` while programs use it.
        error: io::Error,
    },
    /// Not everything that was written could be stored.
    Sync(Errno),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Build { expression, error } => write!(formatter, "cannot build '{expression}': {error}"),
            Error::CurrentDirectory(error) => write!(formatter, "cannot find the current directory: {error}"),
            Error::Object { path, errno } => write!(formatter, "{}: {errno}", path.display()),
            Error::Mount { mount_point, error } => {
                write!(formatter, "cannot mount on {}: {error}", mount_point.display())
            }
            Error::NotOverBase { mount_point } => write!(
                formatter,
                "cannot mount on {}: the stack is to be mounted over its base; set MountOptions::over",
                mount_point.display()
            ),
            Error::Unmount { mount_point, error } => {
                write!(formatter, "cannot unmount {}: {error}", mount_point.display())
            }
            Error::Sync(errno) => write!(formatter, "not everything that was written could be stored: {errno}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Build { error, .. } => Some(error.as_ref()),
            Error::CurrentDirectory(error) | Error::Unmount { error, .. } => Some(error),
            Error::Object { errno, .. } | Error::Sync(errno) => Some(errno),
            Error::Mount { error, .. } => Some(error),
            Error::NotOverBase { .. } => None,
        }
    }
}
