//! The kind of base `dir`: a directory of this machine.

mod work_directory;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use bases::dir::{DirectoryFileSystem, Options as DirectoryOptions};
use layers::OptionSpecification;
use layers::options::{Options, option};
use vnode::FileSystemRef;

use crate::kinds::{BaseError, BaseKind, DIRECTORY};

const WORK_DIRECTORY: &str = "workdir";

const VOLATILE: &str = "volatile";

const OPTIONS: &[OptionSpecification] = &[
    option(
        WORK_DIRECTORY,
        "DIRECTORY",
        "where a union keeps its state of this branch, on the same file system (default: in the directory itself)",
    ),
    option(
        VOLATILE,
        "yes|no",
        "do nothing to synchronize, which is faster; a crash of the machine may lose what was written (default no)",
    ),
];

/// Registration of this kind.
pub(crate) const KIND: BaseKind = BaseKind::new(DIRECTORY, "PATH", "a directory; a plain path means the same", open)
    .with_paths()
    .with_options(OPTIONS);

fn open(location: &OsStr, given: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    let state_directory = |path| work_directory::state_of(Path::new(path), Path::new(location));
    let attachment = given.text(WORK_DIRECTORY).map(state_directory).transpose()?.flatten();
    let volatile = given.flag(VOLATILE)?;
    let options = DirectoryOptions { volatile, ..DirectoryOptions::default() };
    Ok(Arc::new(DirectoryFileSystem::open_with(Path::new(location), options, attachment.as_ref())?))
}
