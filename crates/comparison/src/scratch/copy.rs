//! Copies of files below.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::pass_through::{Caller, PassThrough, Result, path_of};

/// Copies a file to a name in a directory, as the caller. The name stands for what it stood for, or for the whole copy.
///
/// # Errors
/// What reading or writing says.
pub fn copy_file(below: &PassThrough, caller: &Caller, number: u64, parent: u64, name: &OsStr) -> Result<()> {
    let _acting = caller.act()?;
    let (source, directory) = (below.node(number)?, below.node(parent)?);
    let mut source = File::from(rustix::fs::open(path_of(&source), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
    let unfinished = format!(".{number:016x}.{}.copy", caller.process);
    let copied = copy_to(&mut source, &directory, &unfinished)
        .and_then(|()| renameat(directory.as_fd(), &unfinished, directory.as_fd(), name));
    if copied.is_err_and(|error| error != Errno::EXIST) {
        // The error is what went wrong before.
        let _ = unlinkat(directory.as_fd(), &unfinished, AtFlags::empty());
    }
    copied
}

fn copy_to(source: &mut File, directory: &OwnedFd, name: &str) -> Result<()> {
    let mode = Mode::from_raw_mode(fstat(&source)?.st_mode & 0o777);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut target = File::from(openat(directory.as_fd(), name, flags, mode)?);
    io::copy(source, &mut target).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(())
}
