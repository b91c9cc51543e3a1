//! The reasons why a tool stops.

use std::fmt;

use vnode::Errno;

use crate::fat::format::GeometryError;

/// The reason why a tool stopped before it was done. What was written until then is consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolError {
    /// The boot sector describes no file system on this device.
    NotFat(GeometryError),
    /// The device cannot be read at this offset in bytes.
    Read {
        /// Offset in bytes.
        offset: u64,
        /// The error of the device.
        errno: Errno,
    },
    /// The device cannot be written at this offset in bytes.
    Write {
        /// Offset in bytes.
        offset: u64,
        /// The error of the device.
        errno: Errno,
    },
    /// Nobody knows whether what was written has reached the device.
    Flush(Errno),
    /// The device can only be read.
    ReadOnly,
    /// There are not enough free clusters.
    NoSpace,
    /// The root directory, whose size is fixed, has no free entries.
    RootFull,
    /// A directory has the largest size that the format allows.
    DirectoryFull,
    /// There is no entry of this path.
    NotFound(String),
    /// The entry of this path is no directory.
    NotADirectory(String),
    /// This cluster does not exist.
    NoCluster(u32),
    /// This sector does not exist.
    NoSector(u64),
    /// The boot sector has no serial number.
    NoSerial,
    /// The file system has errors, which its check repairs.
    Inconsistent,
}

impl fmt::Display for ToolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFat(error) => write!(formatter, "this is no FAT file system: {error}"),
            Self::Read { offset, errno } => write!(formatter, "cannot read at byte {offset}: {errno}"),
            Self::Write { offset, errno } => write!(formatter, "cannot write at byte {offset}: {errno}"),
            Self::Flush(errno) => write!(formatter, "cannot flush the device: {errno}"),
            Self::ReadOnly => write!(formatter, "the device can only be read"),
            Self::NoSpace => write!(formatter, "there are not enough free clusters"),
            Self::RootFull => write!(formatter, "the root directory is full"),
            Self::DirectoryFull => write!(formatter, "the directory has the largest size"),
            Self::NotFound(path) => write!(formatter, "{path} does not exist"),
            Self::NotADirectory(path) => write!(formatter, "{path} is no directory"),
            Self::NoCluster(cluster) => write!(formatter, "cluster {cluster} does not exist"),
            Self::NoSector(sector) => write!(formatter, "sector {sector} does not exist"),
            Self::NoSerial => write!(formatter, "the boot sector has no serial number"),
            Self::Inconsistent => write!(formatter, "the file system has errors; repair them with `plyfs fat fsck`"),
        }
    }
}

impl std::error::Error for ToolError {}

impl From<GeometryError> for ToolError {
    fn from(error: GeometryError) -> Self {
        Self::NotFat(error)
    }
}
