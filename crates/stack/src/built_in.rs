//! The kinds of bases that Plyfs has.

use std::ffi::OsStr;
use std::sync::Arc;

use bases::mem;
use layers::options::Options;
use vnode::FileSystemRef;

use crate::kinds::{BaseError, BaseKind};
use crate::{directory, fat, iso};

/// Kinds of bases that Plyfs has, sorted by name.
pub(crate) const BASES: &[BaseKind] = &[
    directory::KIND,
    fat::KIND,
    iso::KIND,
    BaseKind::new("mem", "[OPTION=VALUE,...]", "in memory, empty at first and gone at the end", memory),
];

fn memory(location: &OsStr, _: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    let text = location.to_str().ok_or_else(|| BaseError::Location("the options of `mem` are not text".into()))?;
    let options = mem::Options::parse(text).map_err(|error| BaseError::Location(error.to_string()))?;
    Ok(Arc::new(mem::MemoryFileSystem::new(options)))
}
