//! The abilities of a subject, declared as data that the tests read.

use std::fmt;

/// An ability that some file systems, or some ways to access them, lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ability {
    /// Objects can be created and modified.
    Write,
    /// The subject refuses every change with EROFS; its tree was made by [`crate::prepare`].
    ReadOnly,
    /// Clients can act as root and as any other user.
    Users,
    /// Paths are resolved by the kernel: path limits, working directories, `O_PATH`.
    Kernel,
    /// Files can be mapped into memory.
    Map,
    /// Byte-range locks.
    RangeLocks,
    /// Whole-file locks as of flock(2).
    FileLocks,
    /// Extended attributes in the `user.` namespace.
    ExtendedAttributes,
    /// POSIX access control lists.
    AccessControlLists,
    /// Names of 255 bytes.
    FullNames,
    /// Names of any bytes but the slash and zero, which differ if any byte does.
    AnyNames,
    /// Hard links.
    HardLinks,
    /// Unnamed files (`O_TMPFILE`), which can be linked to a name.
    TemporaryFiles,
    /// FIFOs, sockets and device nodes.
    SpecialFiles,
    /// Atomic exchange of two names.
    Exchange,
    /// Files with holes that SEEK_HOLE finds.
    Holes,
    /// fallocate(2): preallocation.
    Allocate,
    /// fallocate(2): punching holes.
    Punch,
    /// fallocate(2): zeroing ranges (`FALLOC_FL_ZERO_RANGE`).
    ZeroRange,
    /// copy_file_range(2).
    CopyRange,
    /// Files larger than 4 GiB.
    LargeFiles,
    /// The kernel or the file system updates access times on reading.
    AccessTimes,
    /// The change time of a file is stable until the file changes. With write-back caching, the kernel has a change time of its
    /// own for as long as it caches the file.
    SteadyChangeTimes,
    /// The link count of a directory is two plus one for each subdirectory.
    DirectoryLinks,
    /// Writes by users other than root clear the set-user-id and set-group-id bits.
    KillSetId,
    /// Directory cookies stay valid when entries are removed, up to the last entry.
    DirectoryCookies,
    /// A size that stat reports is readable at once, even during concurrent appends. A kernel that caches the pages of a file
    /// served by another process learns of size and data at different moments.
    GrowingFiles,
    /// Set-id bits are kept when root writes; otherwise every write clears them.
    RootKeepsSetId,
    /// Creation times are recorded.
    BirthTimes,
    /// When a directory becomes private, access by others to names in it that the kernel has cached is refused at once. A
    /// server that checks permissions itself makes the kernel revalidate them a moment later.
    PromptRevocation,
    /// A named file can get another link at any time. A FUSE client decrements its own link count after an unlink(2) even if a
    /// lookup in between has fetched the new one: the next link(2) may find the count at zero and fail with `ENOENT`, without
    /// asking the server, until the file is looked up again.
    PromptLinkCounts,
    /// New objects get the mode that programs request, before the umask: where a default ACL applies, the umask is ignored.
    WholeModes,
    /// The subject holds at most 64 MiB and nothing else uses it: tests may fill it.
    SmallSpace,
}

impl Ability {
    /// All abilities, in the order of declaration.
    pub const ALL: [Ability; 33] = [
        Ability::Write,
        Ability::ReadOnly,
        Ability::Users,
        Ability::Kernel,
        Ability::Map,
        Ability::RangeLocks,
        Ability::FileLocks,
        Ability::ExtendedAttributes,
        Ability::AccessControlLists,
        Ability::FullNames,
        Ability::AnyNames,
        Ability::HardLinks,
        Ability::TemporaryFiles,
        Ability::SpecialFiles,
        Ability::Exchange,
        Ability::Holes,
        Ability::Allocate,
        Ability::Punch,
        Ability::ZeroRange,
        Ability::CopyRange,
        Ability::LargeFiles,
        Ability::AccessTimes,
        Ability::SteadyChangeTimes,
        Ability::DirectoryLinks,
        Ability::KillSetId,
        Ability::DirectoryCookies,
        Ability::GrowingFiles,
        Ability::RootKeepsSetId,
        Ability::BirthTimes,
        Ability::PromptRevocation,
        Ability::PromptLinkCounts,
        Ability::WholeModes,
        Ability::SmallSpace,
    ];
}

/// A set of abilities.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Abilities(u64);

impl Abilities {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns all abilities of a complete, writable file system; neither read-only nor small.
    pub const fn complete() -> Self {
        Self((1_u64 << Ability::ALL.len()) - 1).without(Ability::ReadOnly).without(Ability::SmallSpace)
    }

    /// Returns the set with this ability added.
    pub const fn with(self, ability: Ability) -> Self {
        Self(self.0 | 1 << ability as u64)
    }

    /// Returns the set with this ability removed.
    pub const fn without(self, ability: Ability) -> Self {
        Self(self.0 & !(1 << ability as u64))
    }

    /// Returns whether the set contains this ability.
    pub const fn has(self, ability: Ability) -> bool {
        self.0 & 1 << ability as u64 != 0
    }

    /// Returns the first of these abilities that the set does not contain.
    pub fn missing(self, needs: &[Ability]) -> Option<Ability> {
        needs.iter().copied().find(|need| !self.has(*need))
    }
}

impl fmt::Debug for Abilities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Ability::ALL.iter().filter(|ability| self.has(**ability));
        formatter.debug_set().entries(held).finish()
    }
}
