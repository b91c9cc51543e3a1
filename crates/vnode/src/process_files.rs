//! The status of a calling process, unless a shortage keeps it from being read.

use std::io;

use procfs::{Process, Status};

use crate::{Errno, Result};

/// Reads the status of a process or thread; `None` if it is gone or there is no /proc.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`.
pub(crate) fn status(pid: u32) -> Result<Option<Status>> {
    unless_short(Process::Numbered(pid).status())
}

/// Takes every error but that of a shortage for the end of the process.
pub(crate) fn unless_short<T>(read: io::Result<Option<T>>) -> Result<Option<T>> {
    match read.map_err(Errno::from) {
        Err(error @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => Err(error),
        read => Ok(read.unwrap_or_default()),
    }
}
