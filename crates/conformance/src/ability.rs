//! What a subject can do, declared as data that the tests read.

use std::fmt;

/// One thing that some file systems, or some ways to reach them, cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ability {
    /// Objects can be created and changed.
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
    /// Extended attributes in the `user.` name space.
    ExtendedAttributes,
    /// POSIX access-control lists.
    AccessControlLists,
    /// Names of 255 bytes.
    FullNames,
    /// Hard links.
    HardLinks,
    /// Files without a name (`O_TMPFILE`), which linking can name.
    TemporaryFiles,
    /// Fifos, sockets and device nodes.
    SpecialFiles,
    /// Swapping two names in one step.
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
    /// Files beyond 4 GiB.
    LargeFiles,
    /// The kernel or the file system updates access times on reading.
    AccessTimes,
    /// The change time of a file stays as it is until the file changes. A kernel that writes back has one of its own, as long
    /// as it remembers the file.
    SteadyChangeTimes,
    /// The link count of a directory is two and one for each subdirectory.
    DirectoryLinks,
    /// Set-user-id and set-group-id bits are cleared when another than root writes.
    KillSetId,
    /// Directory cookies stay valid when entries are removed, to the last.
    DirectoryCookies,
    /// A size that stat tells can be read at once, also while another appends. A kernel that caches the pages of a file
    /// served by another process learns of the two at different moments.
    GrowingFiles,
    /// Set-id bits stay when root writes; otherwise every write clears them.
    RootKeepsSetId,
    /// Times of creation are kept.
    BirthTimes,
    /// When a directory becomes private, names in it that the kernel has cached are refused to others at once. A server that
    /// checks permissions itself has the kernel ask again for them a moment later.
    PromptRevocation,
    /// A file that has a name can get another at any time. A FUSE client lowers its own link count after an unlink(2) even if a
    /// look-up in between has brought the new one: the next link(2) may find none left and say `ENOENT`, without asking the
    /// server, until the file is looked up again.
    PromptLinkCounts,
    /// The modes of new objects come as programs ask for them, before the umask: where a default list rules, that does not count.
    WholeModes,
    /// The subject holds at most 64 MiB and nothing else uses it: tests may fill it.
    SmallSpace,
}

impl Ability {
    /// Every ability, in the order of declaration.
    pub const ALL: [Ability; 32] = [
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
    /// No ability at all.
    pub const NONE: Self = Self(0);

    /// Everything a complete, writable file system can do; neither read-only nor small.
    pub const fn complete() -> Self {
        Self((1_u64 << Ability::ALL.len()) - 1).without(Ability::ReadOnly).without(Ability::SmallSpace)
    }

    /// The set and this ability.
    pub const fn with(self, ability: Ability) -> Self {
        Self(self.0 | 1 << ability as u64)
    }

    /// The set less this ability.
    pub const fn without(self, ability: Ability) -> Self {
        Self(self.0 & !(1 << ability as u64))
    }

    /// Whether the set holds this ability.
    pub const fn has(self, ability: Ability) -> bool {
        self.0 & 1 << ability as u64 != 0
    }

    /// The first of these abilities that the set does not hold.
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
