//! Advisory locks: requests and results.

/// Owner of a lock: one value for each file-descriptor table (POSIX locks) or open file description (flock). The front
/// end assigns it; it has no other meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LockOwner(pub u64);

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
