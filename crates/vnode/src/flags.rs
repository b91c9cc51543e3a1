//! Flags of operations: how a file is opened, renamed, allocated, accessed.

/// How a file is opened: the `O_*` bits of open(2). Creation bits never get here; `create` is an operation of its own.
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
    /// The file is cut to nothing as it is opened.
    pub const TRUNCATE: Self = Self(libc::O_TRUNC as u32);
    /// Creation fails with `EEXIST` if the name exists.
    pub const EXCLUSIVE: Self = Self(libc::O_EXCL as u32);

    /// The open fails with `EAGAIN` where it would wait for somebody to give up a lease on the file. What is done with the open
    /// file is not changed by it.
    pub const NONBLOCK: Self = Self(libc::O_NONBLOCK as u32);

    const CREATION: u32 =
        (libc::O_CREAT | libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NOFOLLOW) as u32;

    /// From the `O_*` bits of open(2); bits that only steer the look-up are dropped.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & !Self::CREATION)
    }

    /// The `O_*` bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Without the bits of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The same flags with another access mode.
    #[must_use]
    pub const fn with_access(self, access: Self) -> Self {
        Self((self.0 & !(libc::O_ACCMODE as u32)) | (access.0 & libc::O_ACCMODE as u32))
    }

    /// How to open a file whose parts are read, changed and written back at their places, for somebody who opens it with
    /// these: for reading too if it is to be written, and neither for appending nor past the cache.
    #[must_use]
    pub const fn for_rewriting(self) -> Self {
        let flags = self.without(Self::APPEND).without(Self(libc::O_DIRECT as u32));
        if flags.writes() { flags.with_access(Self::READ_WRITE) } else { flags }
    }

    /// Whether reading is asked for.
    pub const fn reads(self) -> bool {
        self.0 & libc::O_ACCMODE as u32 != Self::WRITE.0
    }

    /// Whether writing is asked for.
    pub const fn writes(self) -> bool {
        self.0 & libc::O_ACCMODE as u32 != Self::READ.0
    }

    /// Whether every write goes to the end.
    pub const fn appends(self) -> bool {
        self.0 & Self::APPEND.0 != 0
    }

    /// Whether each write is to reach stable storage before it returns (`O_SYNC`, `O_DSYNC`).
    pub const fn synchronizes(self) -> bool {
        self.0 & libc::O_DSYNC as u32 != 0
    }

    /// Whether that is so for the data and not for the times (`O_DSYNC` without the rest of `O_SYNC`).
    pub const fn synchronizes_data_only(self) -> bool {
        self.0 & libc::O_SYNC as u32 == libc::O_DSYNC as u32
    }

    /// Whether the file is cut to nothing at open.
    pub const fn truncates(self) -> bool {
        self.0 & Self::TRUNCATE.0 != 0
    }

    /// Whether the open is not to wait for a lease.
    pub const fn is_nonblocking(self) -> bool {
        self.0 & Self::NONBLOCK.0 != 0
    }

    /// Whether creation must be exclusive.
    pub const fn is_exclusive(self) -> bool {
        self.0 & Self::EXCLUSIVE.0 != 0
    }
}

/// What access(2) asks for: `READ`, `WRITE`, `EXECUTE` (search, for a directory); empty asks for existence.
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

    /// From the bits of access(2); others are dropped.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 7)
    }

    /// The bits of access(2): 4 read, 2 write, 1 execute, as in a mode's digit.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` is asked for.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a rename treats the target, as renameat2(2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RenameMode {
    /// An existing target is replaced.
    #[default]
    Replace,
    /// `EEXIST` if the target exists (`RENAME_NOREPLACE`).
    NoReplace,
    /// Both names exist and change places (`RENAME_EXCHANGE`).
    Exchange,
    /// The source leaves a whiteout, an existing target is replaced (`RENAME_WHITEOUT`).
    Whiteout,
    /// As `Whiteout`, but `EEXIST` if the target exists.
    WhiteoutNoReplace,
}

/// What fallocate(2) does with the range: its mode bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AllocateMode(u32);

impl AllocateMode {
    /// Space is reserved, and the size grows to the end of the range.
    pub const ALLOCATE: Self = Self(0);
    /// The size stays (`FALLOC_FL_KEEP_SIZE`).
    pub const KEEP_SIZE: Self = Self(libc::FALLOC_FL_KEEP_SIZE as u32);
    /// The range becomes a hole (`FALLOC_FL_PUNCH_HOLE`, only with `KEEP_SIZE`).
    pub const PUNCH_HOLE: Self = Self(libc::FALLOC_FL_PUNCH_HOLE as u32);
    /// The range reads as zeros (`FALLOC_FL_ZERO_RANGE`).
    pub const ZERO_RANGE: Self = Self(libc::FALLOC_FL_ZERO_RANGE as u32);
    /// The range is cut out of the file (`FALLOC_FL_COLLAPSE_RANGE`).
    pub const COLLAPSE_RANGE: Self = Self(libc::FALLOC_FL_COLLAPSE_RANGE as u32);
    /// A hole is put in before the range (`FALLOC_FL_INSERT_RANGE`).
    pub const INSERT_RANGE: Self = Self(libc::FALLOC_FL_INSERT_RANGE as u32);

    /// From the mode bits of fallocate(2), kept as they are: a base answers `EOPNOTSUPP` for those it does not know.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The mode bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How setxattr(2) treats an attribute that exists.
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

/// What seek looks for, as lseek(2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SeekTarget {
    /// The next byte that is not in a hole (`SEEK_DATA`).
    Data,
    /// The next hole, or the end of the file (`SEEK_HOLE`).
    Hole,
}
