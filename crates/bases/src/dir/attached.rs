//! A directory from elsewhere on the mount that appears under a name in the root: where a stack keeps what nobody else should see.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{CWD, OFlags};
use vnode::{Errno, Name, NameBuf, Result};

use super::absolute_paths::{absolute_path, below};
use super::credentials::AssumedCredentials;
use super::errno;
use super::error::OpenError;
use super::status::Status;

/// What is to be attached: a directory that exists, outside of the root and on the same mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Name in the root. No object there may have it.
    pub name: NameBuf,
    /// Path of the directory.
    pub directory: PathBuf,
}

/// The open directory, with its name in the root.
pub(crate) struct AttachedDirectory {
    name: NameBuf,
    object: OwnedFd,
}

impl AttachedDirectory {
    /// Opens the directory.
    pub(crate) fn open(
        acting: &AssumedCredentials<'_>,
        root: BorrowedFd<'_>,
        attachment: &Attachment,
    ) -> std::result::Result<Self, OpenError> {
        let path = &attachment.directory;
        let failed = |errno| OpenError::of(path, errno);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let object = acting.open_at(CWD, path, flags).map_err(|error| failed(errno(error)))?;
        if !is_on_one_mount(root, object.as_fd()).map_err(failed)? || is_nested(root, object.as_fd()).map_err(failed)? {
            return Err(OpenError::NotBeside(path.clone()));
        }
        match acting.status_at(root, attachment.name.as_bytes()) {
            Err(Errno::ENOENT) => Ok(Self { name: attachment.name.clone(), object }),
            Ok(_) => Err(OpenError::NameTaken(attachment.name.clone())),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the directory if it is what this name in the root refers to.
    pub(crate) fn at(&self, name: Name<'_>) -> Option<BorrowedFd<'_>> {
        (self.name.as_name() == name).then(|| self.object.as_fd())
    }

    /// Returns the path that an object has below the root, given its absolute path; `None` if it is not in the directory.
    pub(crate) fn path_below_root(&self, absolute: &[u8]) -> Result<Option<Vec<u8>>> {
        let own = absolute_path(self.object.as_fd())?;
        Ok(below(absolute, &own).map(|rest| match rest {
            b"" => self.name.as_bytes().to_vec(),
            rest => [self.name.as_bytes(), b"/", rest].concat(),
        }))
    }

    /// Returns whether an object is the directory itself.
    pub(crate) fn is(&self, is_object_of: impl FnOnce(&Status) -> bool) -> bool {
        Status::cached_of_descriptor(&self.object).is_ok_and(|own| is_object_of(&own))
    }
}

/// Returns whether two directories are on one mount, so that objects can be renamed between them.
fn is_on_one_mount(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<bool> {
    let (one, other) = (Status::of_descriptor(one)?, Status::of_descriptor(other)?);
    Ok(one.device() == other.device() && one.mount_id() == other.mount_id())
}

/// Returns whether one directory is in the other, or is the other.
fn is_nested(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<bool> {
    let (one, other) = (absolute_path(one)?, absolute_path(other)?);
    Ok(below(&one, &other).is_some() || below(&other, &one).is_some())
}
