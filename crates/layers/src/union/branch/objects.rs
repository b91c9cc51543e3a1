//! Objects of a branch, read and changed as the server.

use std::ops::ControlFlow;

use vnode::{
    Attributes, Caller, Cookie, Entry, Errno, FileKind, Name, NameBuf, OpenFile, OpenFlags, Result, SetAttributes,
    SetTime, VnodeRef, read_fully, write_fully,
};

use super::verified::VerifiedOperations;

/// The entry of that name in a directory, if any.
pub(crate) fn find(directory: &VnodeRef, name: Name<'_>) -> Result<Option<Entry>> {
    match directory.lookup(&Caller::server(), name) {
        Ok(entry) => Ok(Some(entry)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether an error is what a file system that somebody else has mounted in a branch, or whose server has ended, answers
/// for everything in it.
pub(crate) fn is_unavailable(error: Errno) -> bool {
    matches!(error, Errno::EACCES | Errno::ENOTCONN)
}

/// All entries of a directory.
pub(crate) fn entries(directory: &VnodeRef) -> Result<Vec<(NameBuf, Option<FileKind>)>> {
    let server = Caller::server();
    let mut entries = Vec::new();
    directory.open_directory(&server)?.read(&server, Cookie::START, &mut |entry| {
        entries.push((entry.name.to_owned(), entry.kind));
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// The data of a file, up to the given number of bytes.
pub(crate) fn read_all(file: &Entry, bytes_max: u64) -> Result<Vec<u8>> {
    let server = Caller::server();
    let opened = file.vnode.open(&server, OpenFlags::READ)?;
    let size = file.attributes.size.min(bytes_max);
    let mut data = vec![0; usize::try_from(size).map_err(|_| Errno::EFBIG)?];
    let length = read_fully(&*opened, &server, 0, &mut data)?;
    data.truncate(length);
    Ok(data)
}

/// Writes all of the data at an offset, as the server.
pub(crate) fn write_all(file: &dyn OpenFile, offset: u64, data: &[u8]) -> Result<()> {
    write_fully(file, &Caller::server(), offset, data)
}

/// Removes the object of this name in a directory, as the server, with everything below it to any depth. Each object counts
/// towards the [progress](vnode::progress) of this thread.
///
/// # Errors
/// `ENOENT` if it does not exist; errors of unlink(2), rmdir(2) and of reading directories: the remainder stays.
pub fn remove_tree(directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    let server = Caller::server();
    let entry = directory.lookup(&server, stored)?;
    if !entry.attributes.is_directory() {
        return directory.unlink_verified(&server, stored);
    }
    // Iterative: a tree may be deeper than a thread's stack. A directory stays below its children on the stack, and is removed
    // when it is empty.
    let mut stack = vec![(directory.clone(), stored.to_owned(), entry.vnode)];
    while let Some((parent, name, inner)) = stack.pop() {
        let mut below = Vec::new();
        for (name, kind) in entries(&inner)? {
            vnode::progress::object_done();
            let is_directory = match kind {
                Some(kind) => kind == FileKind::Directory,
                None => inner.lookup(&server, name.as_name())?.attributes.is_directory(),
            };
            if is_directory {
                below.push((inner.clone(), name.clone(), inner.lookup(&server, name.as_name())?.vnode));
            } else {
                inner.unlink_verified(&server, name.as_name())?;
            }
        }
        if below.is_empty() {
            parent.rmdir_verified(&server, name.as_name())?;
        } else {
            stack.push((parent, name, inner));
            stack.extend(below);
        }
    }
    Ok(())
}

/// Synchronizes the names in a directory of a branch. A file system that does not support that is assumed to have done it.
pub(crate) fn sync_directory(directory: &VnodeRef) -> Result<()> {
    let server = Caller::server();
    match directory.open_directory(&server)?.fsync(&server, false) {
        Err(Errno::EROFS | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(()),
        synchronized => synchronized,
    }
}

/// Changes a directory without a change of its times that users could see.
pub(crate) fn keeping_times(directory: &VnodeRef, change: impl FnOnce() -> Result<()>) -> Result<()> {
    let server = Caller::server();
    let before = directory.getattr(&server)?;
    change()?;
    // The change is made; a failure to restore the times must not be reported as its failure.
    let _ = directory.setattr(&server, &times_of(&before));
    Ok(())
}

/// Access and modification time of an object, to be set again.
pub(crate) fn times_of(attributes: &Attributes) -> SetAttributes {
    SetAttributes {
        atime: Some(SetTime::To(attributes.atime)),
        mtime: Some(SetTime::To(attributes.mtime)),
        ..SetAttributes::default()
    }
}
