//! What a check knows of the store: objects with several names, and how many of these names it has found.

use std::collections::BTreeMap;

use crate::fat::format::Entry;
use crate::fat::tools::directory::DirectoryRange;

/// The objects with several names, and the names that the check has found.
#[derive(Default)]
pub(crate) struct StoredLinks {
    /// Where the slots of the store are; `None` if there is no store.
    pub(crate) range: Option<DirectoryRange>,
    /// The objects by their numbers.
    pub(crate) objects: BTreeMap<u32, StoredObject>,
}

/// An object in the store.
pub(crate) struct StoredObject {
    /// The entry of the object.
    pub(crate) entry: Entry,
    /// Position of the entry that has the number of names.
    pub(crate) count_position: Option<u64>,
    /// The number of names there; `None` if it is missing, or impossible.
    pub(crate) stored: Option<u32>,
    /// Number of names that the check has found.
    pub(crate) names: u32,
}
