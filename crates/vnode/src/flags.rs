//! Flags of operations: how a file is opened, renamed, allocated, accessed.

/// Open flags: the `O_*` bits of open(2). Creation bits are never included; `create` is an operation of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpenFlags(u32);

impl OpenFlags {
    /// For reading only.
    pub const READ: Self = Self(libc::O_RDONLY as u32);
    /// For writing only.
    pub const WRITE: Self = Self(libc::O_WRONLY as u32);
    /// For reading and writing.
    pub const READ_WRITE: Self = Self(libc::O_RDWR as u32);
    /// Every write goes to the end of the file.
    pub const APPEND: Self = Self(libc::O_APPEND as u32);
    /// The file is truncated to zero length when it is opened.
    pub const TRUNCATE: Self = Self(libc::O_TRUNC as u32);
    /// Creation fails with `EEXIST` if the name exists.
    pub const EXCLUSIVE: Self = Self(libc::O_EXCL as u32);

    /// The open fails with `EAGAIN` instead of waiting for a lease on the file to be released. Operations on the open
    /// file are not affected.
    pub const NONBLOCK: Self = Self(libc::O_NONBLOCK as u32);

    /// With [`Self::NONBLOCK`]: the open does not wait for a moment either, because the caller holds locks. Only layers set it, and
    /// open(2) has no such bit.
    pub const AT_ONCE: Self = Self(1 << 30);

    const CREATION: u32 =
        (libc::O_CREAT | libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NOFOLLOW) as u32;

    /// Converts the `O_*` bits of open(2); drops bits that only control the lookup.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & !Self::CREATION)
    }

    /// Returns the `O_*` bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the union of both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these flags without the bits of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns these flags with another access mode.
    #[must_use]
    pub const fn with_access(self, access: Self) -> Self {
        Self((self.0 & !(libc::O_ACCMODE as u32)) | (access.0 & libc::O_ACCMODE as u32))
    }

    /// Returns the flags that open a file for read-modify-write of its parts, on behalf of a caller that opens it with
    /// these flags: readable as well if it is to be written, and neither appending nor bypassing the cache.
    #[must_use]
    pub const fn for_rewriting(self) -> Self {
        let flags = self.without(Self::APPEND).without(Self(libc::O_DIRECT as u32));
        if flags.writes() { flags.with_access(Self::READ_WRITE) } else { flags }
    }

    /// Returns whether reading is requested.
    pub const fn reads(self) -> bool {
        self.0 & libc::O_ACCMODE as u32 != Self::WRITE.0
    }

    /// Returns whether writing is requested.
    pub const fn writes(self) -> bool {
        self.0 & libc::O_ACCMODE as u32 != Self::READ.0
    }

    /// Returns whether every write goes to the end.
    pub const fn appends(self) -> bool {
        self.0 & Self::APPEND.0 != 0
    }

    /// Returns whether each write must reach stable storage before it returns (`O_SYNC`, `O_DSYNC`).
    pub const fn synchronizes(self) -> bool {
        self.0 & libc::O_DSYNC as u32 != 0
    }

    /// Returns whether that applies to the data but not to the times (`O_DSYNC` without the rest of `O_SYNC`).
    pub const fn synchronizes_data_only(self) -> bool {
        self.0 & libc::O_SYNC as u32 == libc::O_DSYNC as u32
    }

    /// Returns whether the open truncates the file to zero length.
    pub const fn truncates(self) -> bool {
        self.0 & Self::TRUNCATE.0 != 0
    }

    /// Returns whether the open must not wait for a lease.
    pub const fn is_nonblocking(self) -> bool {
        self.0 & Self::NONBLOCK.0 != 0
    }

    /// Returns whether the open must not wait for a moment either.
    pub const fn is_at_once(self) -> bool {
        self.0 & Self::AT_ONCE.0 != 0
    }

    /// Returns whether creation must be exclusive.
    pub const fn is_exclusive(self) -> bool {
        self.0 & Self::EXCLUSIVE.0 != 0
    }
}

/// Access mode requested by access(2): `READ`, `WRITE`, `EXECUTE` (search, for a directory); empty tests for existence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AccessMode(u32);

impl AccessMode {
    /// Existence only.
    pub const EXISTS: Self = Self(0);
    /// Reading.
    pub const READ: Self = Self(libc::R_OK as u32);
    /// Writing.
    pub const WRITE: Self = Self(libc::W_OK as u32);
    /// Executing, or searching a directory.
    pub const EXECUTE: Self = Self(libc::X_OK as u32);

    /// Converts the bits of access(2); drops others.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 7)
    }

    /// Returns the bits of access(2): 4 read, 2 write, 1 execute, as in a digit of the mode.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns whether all of `other` is requested.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Treatment of the target by a rename, as renameat2(2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RenameMode {
    /// An existing target is replaced.
    #[default]
    Replace,
    /// `EEXIST` if the target exists (`RENAME_NOREPLACE`).
    NoReplace,
    /// Both names exist and are exchanged (`RENAME_EXCHANGE`).
    Exchange,
    /// The source leaves a whiteout, an existing target is replaced (`RENAME_WHITEOUT`).
    Whiteout,
    /// As `Whiteout`, but `EEXIST` if the target exists.
    WhiteoutNoReplace,
}

/// Mode bits of fallocate(2), which select what happens to the range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AllocateMode(u32);

impl AllocateMode {
    /// Reserves space, and extends the size to the end of the range.
    pub const ALLOCATE: Self = Self(0);
    /// Keeps the size (`FALLOC_FL_KEEP_SIZE`).
    pub const KEEP_SIZE: Self = Self(libc::FALLOC_FL_KEEP_SIZE as u32);
    /// Turns the range into a hole (`FALLOC_FL_PUNCH_HOLE`, only with `KEEP_SIZE`).
    pub const PUNCH_HOLE: Self = Self(libc::FALLOC_FL_PUNCH_HOLE as u32);
    /// Makes the range read as zeros (`FALLOC_FL_ZERO_RANGE`).
    pub const ZERO_RANGE: Self = Self(libc::FALLOC_FL_ZERO_RANGE as u32);
    /// Removes the range from the file (`FALLOC_FL_COLLAPSE_RANGE`).
    pub const COLLAPSE_RANGE: Self = Self(libc::FALLOC_FL_COLLAPSE_RANGE as u32);
    /// Inserts a hole before the range (`FALLOC_FL_INSERT_RANGE`).
    pub const INSERT_RANGE: Self = Self(libc::FALLOC_FL_INSERT_RANGE as u32);

    /// Converts the mode bits of fallocate(2) unchanged: a base returns `EOPNOTSUPP` for those that it does not know.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the mode bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Treatment of an existing attribute by setxattr(2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum XattrMode {
    /// Created or replaced.
    #[default]
    Set,
    /// `EEXIST` if it exists (`XATTR_CREATE`).
    Create,
    /// `ENODATA` if it does not (`XATTR_REPLACE`).
    Replace,
}

/// Target of a seek, as lseek(2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SeekTarget {
    /// The next byte that is not in a hole (`SEEK_DATA`).
    Data,
    /// The next hole, or the end of the file (`SEEK_HOLE`).
    Hole,
}
