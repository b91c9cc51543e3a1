//! Reasons why an image cannot be opened, with remedies.

use std::fmt;

use vnode::{Errno, shortage};

/// The reason why an image cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// The image, as it was named.
    pub name: String,
    /// The reason.
    pub cause: OpenErrorCause,
}

/// The reason why an image cannot be opened, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenErrorCause {
    /// It has no volume descriptor.
    NotAnImage,
    /// It is a disc of High Sierra, the format before ISO 9660.
    HighSierra,
    /// It has a UDF volume and none of ISO 9660.
    OnlyUdf,
    /// It does not have as many sessions.
    NoSession {
        /// Number of the session that was requested.
        requested: u32,
        /// Number of sessions that there are.
        existing: u32,
    },
    /// The volume descriptor, or the root directory that it names, makes no sense.
    Damaged(&'static str),
    /// It cannot be read.
    Unreadable(Errno),
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.cause {
            OpenErrorCause::NotAnImage => {
                write!(
                    formatter,
                    "`{name}` is no ISO 9660 image: it has no volume descriptor; check what it is with file(1)"
                )
            }
            OpenErrorCause::HighSierra => {
                write!(formatter, "`{name}` is a High Sierra image, which is not supported: read it with 7z(1)")
            }
            OpenErrorCause::OnlyUdf => {
                write!(formatter, "`{name}` has only a UDF volume, which is not supported: read it with mount -t udf")
            }
            OpenErrorCause::NoSession { requested, existing } => {
                write!(formatter, "`{name}` has no session {requested}: choose one up to {existing}")
            }
            OpenErrorCause::Damaged(what) => {
                write!(
                    formatter,
                    "the image `{name}` is damaged: {what}; compare it with its checksum, or get it again"
                )
            }
            OpenErrorCause::Unreadable(errno) => {
                write!(formatter, "cannot read `{name}`: {errno}{}", shortage::remedy(&(*errno).into()))
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl From<Errno> for OpenErrorCause {
    fn from(errno: Errno) -> Self {
        Self::Unreadable(errno)
    }
}
