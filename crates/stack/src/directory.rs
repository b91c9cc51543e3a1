//! The kind of base `dir`: a directory of this machine.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use bases::dir::{Attachment, DirectoryFileSystem, OpenError, Options as DirectoryOptions};
use layers::options::{Options, option};
use layers::union::STATE_DIRECTORY;
use layers::{OptionSpecification, is_only_described};
use vnode::{Errno, FileSystemRef, NameBuf};

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

/// Name, in the work directory, of the state directory.
const STATE: &str = "plyfs";

fn open(location: &OsStr, given: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    let attachment = given.text(WORK_DIRECTORY).map(|path| state_of(Path::new(path))).transpose()?.flatten();
    let volatile = given.flag(VOLATILE)?;
    let options = DirectoryOptions { volatile, ..DirectoryOptions::default() };
    Ok(Arc::new(DirectoryFileSystem::open_with(Path::new(location), options, attachment.as_ref())?))
}

/// Returns the state directory in a work directory; created, unless a stack is only described, where it may be absent.
fn state_of(work: &Path) -> Result<Option<Attachment>, BaseError> {
    let directory = work.join(STATE);
    if !is_only_described() {
        create(&directory)?;
    } else if !directory.exists() {
        return Ok(None);
    }
    let name = NameBuf::new(STATE_DIRECTORY).map_err(|errno| OpenError::Failed(directory.clone(), errno))?;
    Ok(Some(Attachment { name, directory }))
}

/// Creates the state directory with access for its owner only, unless it exists.
fn create(directory: &Path) -> Result<(), OpenError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(OpenError::of(
            directory.parent().unwrap_or(directory),
            error.raw_os_error().map_or(Errno::EIO, Errno::new),
        )),
    }
}
