//! What the options of a union decide.

use super::whiteout::Format;

/// How a union does what can be done in several ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// What is done on the right of a name that is taken away.
    pub(super) deletion: Deletion,
    /// How whiteouts are written.
    pub(super) whiteouts: Format,
    /// Who owns what is copied up, and what may be done with it.
    pub(super) copy_up: Ownership,
    /// Whether files are copied without their data as long as these are not about to be changed.
    pub(super) metacopy: bool,
    /// Where new objects go.
    pub(super) create: Policy,
    /// A branch with fewer free bytes gets new objects only if all have fewer.
    pub(super) minimum_free: u64,
    /// What meets a full branch goes to another: new objects, copies, and files that are written.
    pub(super) moves_when_full: bool,
}

/// Whose a copy in another branch is (Unionfs, section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ownership {
    /// As the original.
    #[default]
    Original,
    /// Always the same.
    Constant(Rights),
    /// The caller's, as something new.
    Current,
}

/// Owner, group and permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Of anything but a directory.
    pub(super) mode: u32,
}

impl Rights {
    /// The permission bits of a directory: who may read it may search it.
    pub(super) fn directory_mode(&self) -> u32 {
        self.mode | (self.mode & 0o444) >> 2
    }
}

/// Which of the branches in which something may be created a new object goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Policy {
    /// That of the directory's leftmost instance, or the nearest on the left of it.
    #[default]
    First,
    /// The one with most free space.
    MostFree,
    /// The one with least data.
    LeastUsed,
    /// Any.
    Random,
    /// One after the other.
    RoundRobin,
    /// One that has the directory already.
    ExistingPath,
}

/// What becomes of the instances on the right of one that is deleted (Unionfs, section 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Deletion {
    /// A whiteout hides them.
    #[default]
    Whiteout,
    /// They are deleted too; what cannot be deleted is hidden.
    All,
}
