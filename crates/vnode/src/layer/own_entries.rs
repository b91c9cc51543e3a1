//! Entries of the layer's own: which there are, and what they are made for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Errno, Name, NameBuf, Result};

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

/// Number of names of temporary directories given so far.
static TEMPORARIES: AtomicU64 = AtomicU64::new(0);
/// Digits after the prefix of the name of a temporary directory.
const DIGITS: usize = 16;

fn prefix(kind: &str) -> String {
    format!(".plyfs-{kind}-")
}

/// Returns whether this is the name of a directory that is being made or removed by a layer of this kind.
pub(crate) fn is_temporary(kind: &str, name: Name<'_>) -> bool {
    let digits = name.as_bytes().strip_prefix(prefix(kind).as_bytes());
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns a name for a directory that is being made or removed. What a server that ended left has others.
pub(crate) fn temporary_name(kind: &str) -> Result<NameBuf> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(|_| Errno::EIO)?;
    let number = u64::from_ne_bytes(random).wrapping_add(TEMPORARIES.fetch_add(1, Ordering::Relaxed));
    NameBuf::new(format!("{}{number:0DIGITS$x}", prefix(kind)).into_bytes())
}
