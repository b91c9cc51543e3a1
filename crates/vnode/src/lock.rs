//! Advisory locks: what is asked and what is answered.

/// Who holds a lock: one value for each file-descriptor table (POSIX locks) or open file description (flock).
/// The front end makes it; it has no other meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LockOwner(pub u64);

/// Most byte ranges that one owner holds in one file: to take one more, or to release a part of one that leaves two, answers
/// `ENOLCK` (fcntl(2): "Too many segment locks open"). Ranges that touch and exclude the same are one.
pub const LOCK_RANGES_MAX: usize = 4096;

/// What a lock excludes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockKind {
    /// Other exclusive locks.
    Shared,
    /// All other locks.
    Exclusive,
    /// Nothing: the owner's locks on the range are released.
    Unlock,
}

/// Which family of locks; the families do not see each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockFamily {
    /// Byte ranges, as fcntl(2) `F_SETLK`. All of an owner's go when it closes any descriptor of the file.
    Posix,
    /// Whole files, as flock(2). Released with the open file.
    Flock,
}

/// A lock that is asked for or that stands in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The family.
    pub family: LockFamily,
    /// What it excludes.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The last byte, included; `u64::MAX` for all to the end, however far the file grows.
    pub end: u64,
    /// The holder's process id, 0 where it is not known.
    pub pid: u32,
}
