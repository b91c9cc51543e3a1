//! The options of `union`: none yet.

use vnode::FileSystemRef;

use super::UnionFileSystem;
use crate::options::{OptionError, OptionSpecification, Options};
use crate::{Branch, BranchOpener};

pub(super) const KNOWN: &[OptionSpecification] = &[];

/// Makes the union.
///
/// # Errors
/// For an option that does not exist or cannot have that value.
pub fn create(
    pairs: &[(String, String)],
    branches: Vec<Branch>,
    opener: Option<BranchOpener>,
) -> Result<FileSystemRef, OptionError> {
    Options::new(super::KIND.name, KNOWN, pairs)?;
    Ok(std::sync::Arc::new(UnionFileSystem::with_opener(branches, opener)))
}
