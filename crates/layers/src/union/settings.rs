//! What the options of a union decide.

use super::whiteout::Format;

/// How a union does what can be done in several ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// What is done on the right of a name that is taken away.
    pub(super) deletion: Deletion,
    /// How whiteouts are written.
    pub(super) whiteouts: Format,
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
