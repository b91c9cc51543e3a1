//! Advisory locks: requests and results.

use std::sync::Arc;

/// Owner of a lock: one value for each file-descriptor table (POSIX locks) or open file description (flock). The front
/// end assigns it; it has no other meaning. Two owners are the same if they are equal; a number and bytes never are.
///
/// A number is held inline: it is passed with every close of a file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LockOwner {
    /// A number, such as the `lock_owner` of a FUSE request.
    Number(u64),
    /// Bytes of any length, none included. An NLM server has an owner of up to 1024 bytes and the name of the client's
    /// host: together they are the owner, with the length of one before both, so that different pairs differ.
    Opaque(Arc<[u8]>),
}

impl LockOwner {
    /// Returns the memory in bytes that the owner takes besides its own size; shared by its clones.
    pub fn shared_bytes(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Opaque(bytes) => bytes.len(),
        }
    }
}

impl From<&[u8]> for LockOwner {
    fn from(bytes: &[u8]) -> Self {
        Self::Opaque(bytes.into())
    }
}

/// Maximum number of byte ranges that one owner holds in one file: acquiring one more, or releasing part of a range so
/// that two remain, fails with `ENOLCK` (fcntl(2): "Too many segment locks open"). Adjacent ranges that exclude the
/// same locks count as one.
pub const LOCK_RANGES_MAX: usize = 4096;

/// Kind of a lock, by the locks that it excludes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockKind {
    /// Other exclusive locks.
    Shared,
    /// All other locks.
    Exclusive,
    /// Nothing: the owner's locks on the range are released.
    Unlock,
}

/// Family of a lock; the families do not see each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockFamily {
    /// Byte ranges, as fcntl(2) `F_SETLK`. All locks of an owner are released when it closes any descriptor of the
    /// file.
    Posix,
    /// Whole files, as flock(2). Released with the open file.
    Flock,
}

/// A requested or conflicting lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The family.
    pub family: LockFamily,
    /// The kind.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The last byte, inclusive; `u64::MAX` for everything to the end, however far the file grows.
    pub end: u64,
    /// Process ID of the holder, 0 if unknown.
    pub pid: u32,
}
