//! What the options of a union decide.

use super::whiteout::Format;

/// How a union does what can be done in several ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// What is done on the right of a name that is taken away.
    pub(super) deletion: Deletion,
    /// How whiteouts are written.
    pub(super) whiteouts: Format,
    /// Where new objects go.
    pub(super) create: Policy,
    /// A branch with fewer free bytes gets new objects only if all have fewer.
    pub(super) minimum_free: u64,
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
