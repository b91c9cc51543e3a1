//! Entries of the layer's own: which there are, and what they are made for.

use crate::Name;

/// Entries that a layer has of its own below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnEntries {
    /// There are such entries: changes of a directory's names are made one at a time. Implied by the others.
    pub exist: bool,
    /// A new directory gets some before it is visible, by [`super::Layer::fill_directory`].
    pub in_new_directories: bool,
    /// Entries have some beside them, which [`super::Layer::prepare_entry`] makes and [`super::Layer::forget_entry`] removes.
    pub beside_others: bool,
}

impl OwnEntries {
    /// No own entries.
    pub const NONE: Self = Self { exist: false, in_new_directories: false, beside_others: false };
}

/// Where the object of a new entry comes from: vnodes of the layer are `N`.
pub enum EntryOrigin<'a, N> {
    /// It is new.
    New,
    /// It has this name in this directory, and loses it, unless the two names are exchanged.
    Renamed(&'a N, Name<'a>),
    /// It is this object, and keeps its names.
    Linked(&'a N),
}
