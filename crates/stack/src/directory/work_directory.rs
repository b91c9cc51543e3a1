//! The work directory of a directory that is served: where a union keeps its state, and to which directory it belongs.

use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use bases::dir::{Attachment, OpenError};
use layers::is_only_described;
use layers::union::STATE_DIRECTORY;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use vnode::{Errno, NameBuf};

/// Name, in the work directory, of the state directory.
const STATE: &str = "plyfs";

/// Name, in the state directory, of the file that says to which directory the work directory belongs.
const DIRECTORY: &str = "directory";

/// Returns the state directory in a work directory; created, unless a stack is only described, where it may be absent.
///
/// # Errors
/// Fails if it cannot be created, or belongs to another directory than that at `location`: what a union keeps there is about the
/// objects of one directory.
pub(crate) fn state_of(work: &Path, location: &Path) -> Result<Option<Attachment>, OpenError> {
    let directory = work.join(STATE);
    if !is_only_described() {
        create(&directory)?;
    } else if !directory.exists() {
        return Ok(None);
    }
    let failed = |errno| OpenError::of(&directory, errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let state = openat(CWD, &directory, flags, Mode::empty()).map_err(|error| failed(errno(error)))?;
    // What others can write says nothing; the union refuses it.
    if is_private(&state).map_err(failed)? && !belongs_to(&state, location).map_err(failed)? {
        return Err(OpenError::BelongsToAnother(work.to_owned()));
    }
    let name = NameBuf::new(STATE_DIRECTORY).map_err(failed)?;
    Ok(Some(Attachment { name, directory }))
}

/// Creates the directory with access for its owner only, unless it exists.
fn create(directory: &Path) -> Result<(), OpenError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(OpenError::of(directory.parent().unwrap_or(directory), os_error(&error))),
    }
}

/// Returns whether only this process's user can write to the state directory.
fn is_private(state: &OwnedFd) -> Result<bool, Errno> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let status = fstat(state).map_err(errno)?;
    Ok(status.st_uid == rustix::process::geteuid().as_raw() && status.st_mode & WRITABLE_BY_OTHERS == 0)
}

/// Returns whether a state directory belongs to the directory at a path. One that belongs to none, or whose record a crash has cut
/// off, is that directory's from now on.
fn belongs_to(state: &OwnedFd, location: &Path) -> Result<bool, Errno> {
    let own = record_of(location)?;
    let access = if is_only_described() { OFlags::RDONLY } else { OFlags::RDWR | OFlags::CREATE };
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = match openat(state, DIRECTORY, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::ROFS) => return Ok(true),
        Err(error) => return Err(errno(error)),
    };
    let mut recorded = String::new();
    file.read_to_string(&mut recorded).map_err(|error| os_error(&error))?;
    if recorded.ends_with('\n') || is_only_described() {
        return Ok(recorded == own || recorded.is_empty());
    }
    file.set_len(0).map_err(|error| os_error(&error))?;
    // At the end of what has been read, which is none now.
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).map_err(errno)?;
    file.write_all(own.as_bytes()).map_err(|error| os_error(&error))?;
    Ok(true)
}

/// Returns what identifies a directory on its file system as long as it exists: its inode number and when it was created, if that is
/// known.
fn record_of(location: &Path) -> Result<String, Errno> {
    let status = std::fs::metadata(location).map_err(|error| os_error(&error))?;
    let created = status.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(format!("{} {}\n", status.ino(), created.unwrap_or_default().as_nanos()))
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::new(error.raw_os_error())
}

fn os_error(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_work_directory_belongs_to_the_first_directory_that_uses_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        ["work", "upper", "other"].iter().for_each(|name| fs::create_dir(path(name)).unwrap());
        let is_given = |location: &str| state_of(&path("work"), &path(location));
        assert!(is_given("upper").is_ok() && is_given("upper").is_ok());
        assert!(matches!(is_given("other"), Err(OpenError::BelongsToAnother(work)) if work == path("work")));
        // As after a crash.
        fs::write(path("work/plyfs/directory"), "12").unwrap();
        assert!(is_given("other").is_ok() && is_given("upper").is_err());
        fs::remove_dir_all(path("work/plyfs")).unwrap();
        symlink(path("other"), path("work/plyfs")).unwrap();
        assert!(is_given("upper").is_err());
        assert_eq!(fs::read_dir(path("other")).unwrap().count(), 0);
    }
}
