//! The kinds of bases: the word before the colon, the location after it, and how each is opened.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use vnode::FileSystemRef;

/// A kind of base.
#[derive(Clone, Copy, Debug)]
pub struct BaseKind {
    /// The word before the colon.
    pub name: &'static str,
    /// Form of the location, such as `PATH`.
    pub location: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// Set if the location is a path, which is made absolute before anything is opened.
    pub location_is_path: bool,
    pub(crate) open: fn(&OsStr) -> Result<FileSystemRef, BaseError>,
}

impl BaseKind {
    /// Returns a kind of base whose locations are not paths. `open` gets what follows the colon.
    pub const fn new(
        name: &'static str,
        location: &'static str,
        summary: &'static str,
        open: fn(&OsStr) -> Result<FileSystemRef, BaseError>,
    ) -> Self {
        Self { name, location, summary, location_is_path: false, open }
    }

    /// Declares that locations are paths: a location is required, and relative ones begin at the working directory.
    pub const fn with_paths(self) -> Self {
        Self { location_is_path: true, ..self }
    }
}

/// Reason why a base cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseError {
    /// The directory cannot be served.
    Directory(bases::dir::OpenError),
    /// The location is invalid; the text names the cause.
    Location(String),
}

/// Kind of base that a plain path denotes.
pub const DIRECTORY: &str = "dir";

/// Kinds of bases that Plyfs has, sorted by name.
pub(crate) const BASES: &[BaseKind] = &[
    BaseKind::new(DIRECTORY, "PATH", "a directory; a plain path means the same", directory).with_paths(),
    BaseKind::new("mem", "[OPTION=VALUE,...]", "in memory, empty at first and gone at the end", memory),
];

fn directory(location: &OsStr) -> Result<FileSystemRef, BaseError> {
    use bases::dir::{DirectoryFileSystem, Options};
    let opened = DirectoryFileSystem::open(Path::new(location), Options::default());
    Ok(Arc::new(opened.map_err(BaseError::Directory)?))
}

fn memory(location: &OsStr) -> Result<FileSystemRef, BaseError> {
    let text = location.to_str().ok_or_else(|| BaseError::Location("the options of `mem` are not text".into()))?;
    let options = bases::mem::Options::parse(text).map_err(|error| BaseError::Location(error.to_string()))?;
    Ok(Arc::new(bases::mem::MemoryFileSystem::new(options)))
}
