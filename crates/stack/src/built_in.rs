//! The kinds of bases that Plyfs has.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use bases::{dir, mem};
use layers::options::Options;
use vnode::FileSystemRef;

use crate::kinds::{BaseError, BaseKind, DIRECTORY};
use crate::{fat, iso};

/// Kinds of bases that Plyfs has, sorted by name.
pub(crate) const BASES: &[BaseKind] = &[
    BaseKind::new(DIRECTORY, "PATH", "a directory; a plain path means the same", directory).with_paths(),
    fat::KIND,
    iso::KIND,
    BaseKind::new("mem", "[OPTION=VALUE,...]", "in memory, empty at first and gone at the end", memory),
];

fn directory(location: &OsStr, _: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    Ok(Arc::new(dir::DirectoryFileSystem::open(Path::new(location), dir::Options::default())?))
}

fn memory(location: &OsStr, _: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    let text = location.to_str().ok_or_else(|| BaseError::Location("the options of `mem` are not text".into()))?;
    let options = mem::Options::parse(text).map_err(|error| BaseError::Location(error.to_string()))?;
    Ok(Arc::new(mem::MemoryFileSystem::new(options)))
}
