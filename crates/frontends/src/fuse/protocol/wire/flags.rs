//! Flags of the protocol: one module per field, so that each use names the field.

/// `flags` and `flags2` of INIT, joined (the second word is the upper half).
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const POSIX_LOCKS: u64 = 1 << 1;
    pub(crate) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(crate) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const SPLICE_WRITE: u64 = 1 << 7;
    pub(crate) const SPLICE_MOVE: u64 = 1 << 8;
    pub(crate) const SPLICE_READ: u64 = 1 << 9;
    pub(crate) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(crate) const HAS_IOCTL_DIR: u64 = 1 << 11;
    pub(crate) const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const WRITEBACK_CACHE: u64 = 1 << 16;
    pub(crate) const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const HANDLE_KILLPRIV: u64 = 1 << 19;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const ABORT_ERROR: u64 = 1 << 21;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub(crate) const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub(crate) const MAP_ALIGNMENT: u64 = 1 << 26;
    pub(crate) const SUBMOUNTS: u64 = 1 << 27;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const SECURITY_CTX: u64 = 1 << 32;
    pub(crate) const HAS_INODE_DAX: u64 = 1 << 33;
    pub(crate) const CREATE_SUPP_GROUP: u64 = 1 << 34;
    pub(crate) const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(crate) const PASSTHROUGH: u64 = 1 << 37;
    pub(crate) const NO_EXPORT_SUPPORT: u64 = 1 << 38;
    pub(crate) const HAS_RESEND: u64 = 1 << 39;
    pub(crate) const ALLOW_IDMAP: u64 = 1 << 40;
    pub(crate) const OVER_IO_URING: u64 = 1 << 41;
    pub(crate) const REQUEST_TIMEOUT: u64 = 1 << 42;
}

/// `valid` of SETATTR.
pub(crate) mod set_attributes {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const HANDLE: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const LOCK_OWNER: u32 = 1 << 9;
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// `open_flags` of the replies to OPEN, OPENDIR and CREATE.
pub(crate) mod open_reply {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const NONSEEKABLE: u32 = 1 << 2;
    pub(crate) const CACHE_DIR: u32 = 1 << 3;
    pub(crate) const STREAM: u32 = 1 << 4;
    pub(crate) const NOFLUSH: u32 = 1 << 5;
    pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    pub(crate) const PASSTHROUGH: u32 = 1 << 7;
}

/// `open_flags` of OPEN and CREATE requests that truncate: the caller may not keep set-ID bits.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// `release_flags`: flush first (never sent since FLUSH exists).
pub(crate) const RELEASE_FLUSH: u32 = 1 << 0;
/// `release_flags`: drop the flock lock of this open file.
pub(crate) const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
/// `getattr_flags`: the file handle is valid.
pub(crate) const GETATTR_HANDLE: u32 = 1 << 0;
/// `lk_flags`: a flock(2) lock, not a byte range.
pub(crate) const LOCK_FLOCK: u32 = 1 << 0;
/// `write_flags`: written back from the page cache, the file handle is a guess.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// `write_flags`: the lock owner is valid.
pub(crate) const WRITE_LOCK_OWNER: u32 = 1 << 1;
/// `write_flags`: set-ID bits must be cleared.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `read_flags`: the lock owner is valid.
pub(crate) const READ_LOCK_OWNER: u32 = 1 << 1;
/// `fsync_flags`: data only.
pub(crate) const FSYNC_DATA_ONLY: u32 = 1 << 0;
/// `setxattr_flags`: set-group-ID must be cleared with this access control list.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
/// `flags` of an INVAL_ENTRY notification: mark as stale, keep what is in use.
pub(crate) const EXPIRE_ONLY: u32 = 1 << 0;
/// `flags` of POLL: wake the poller by a notification later.
pub(crate) const POLL_SCHEDULE_NOTIFY: u32 = 1 << 0;

/// `flags` of IOCTL.
pub(crate) mod ioctl {
    pub(crate) const COMPAT: u32 = 1 << 0;
    pub(crate) const UNRESTRICTED: u32 = 1 << 1;
    pub(crate) const RETRY: u32 = 1 << 2;
    pub(crate) const BITS_32: u32 = 1 << 3;
    pub(crate) const DIRECTORY: u32 = 1 << 4;
    /// `_IOC_WRITE`: in the two highest bits of a command that takes data.
    pub(crate) const DIRECTION_WRITE: u32 = 1;
}

/// Extension types above the range reserved for security contexts.
pub(crate) mod extension {
    pub(crate) const SECURITY_CONTEXTS_MAX: u32 = 31;
    pub(crate) const GROUPS: u32 = 32;
}
