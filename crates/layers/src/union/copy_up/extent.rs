//! Amount of data that a copy-up copies, and the truncation that may be part of it.

use vnode::{Result, VnodeRef};

/// Amount of a file's data that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataExtent {
    /// All data.
    All,
    /// The first bytes: the remainder is about to be truncated.
    UpTo(u64),
    /// No data, if possible: they are not about to be changed.
    Nothing,
}

/// The truncating step of the operation, applied to a copy before it becomes visible, so that no truncated file is visible if
/// the operation fails.
pub(crate) type TruncateStep<'a> = &'a dyn Fn(&VnodeRef) -> Result<()>;

/// Maximum number of attempts if the object moves while its copy is made.
pub(crate) const MAX_ATTEMPTS: usize = 16;
