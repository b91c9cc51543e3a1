//! Errors of an extraction: of reading from the image, or of writing into the directory.

use rustix::io::Errno as SystemError;
use vnode::Errno;

/// The reason why an object is not extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtractionError {
    /// The image cannot be read.
    Read(Errno),
    /// The directory cannot be written.
    Write(SystemError),
}

impl ExtractionError {
    /// Returns whether nothing more can be written: the file system is full or read-only, or the quota is used up.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Write(SystemError::NOSPC | SystemError::DQUOT | SystemError::ROFS))
    }

    /// Returns a line about the object with this path.
    pub(crate) fn line(self, path: &str) -> String {
        match self {
            Self::Read(errno) => format!("cannot read {path}: {errno}"),
            Self::Write(SystemError::EXIST) => format!("cannot write {path}: an object of that name exists"),
            Self::Write(error) => format!("cannot write {path}: {}", Errno::new(error.raw_os_error())),
        }
    }
}

impl From<Errno> for ExtractionError {
    fn from(errno: Errno) -> Self {
        Self::Read(errno)
    }
}

impl From<SystemError> for ExtractionError {
    fn from(error: SystemError) -> Self {
        Self::Write(error)
    }
}
