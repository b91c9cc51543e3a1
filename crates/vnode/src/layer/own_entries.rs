//! Entries of the layer's own: which there are, and what they are made for.

use crate::{Errno, Name, NameBuf, Result};

/// Entries that a layer has of its own below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnEntries {
    /// There are such entries: changes of a directory's names are made one at a time. Needed for the others.
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

/// Begins the name of a temporary directory; the kind of the layer, a hyphen and digits follow.
const PREFIX: &[u8] = b".plyfs-";
const DIGITS: usize = 16;

/// Returns whether this is the name of a directory that is being made or removed by a layer of this kind.
pub(crate) fn is_temporary(kind: &str, name: Name<'_>) -> bool {
    let digits = name.as_bytes().strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(kind.as_bytes()));
    let digits = digits.and_then(|rest| rest.strip_prefix(b"-"));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns a random name for a directory that is being made or removed, other than those that a server which ended has left.
pub(crate) fn temporary_name(kind: &str) -> Result<NameBuf> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(|_| Errno::EIO)?;
    let digits = format!("{:0DIGITS$x}", u64::from_ne_bytes(random));
    NameBuf::new([PREFIX, kind.as_bytes(), b"-", digits.as_bytes()].concat())
}
