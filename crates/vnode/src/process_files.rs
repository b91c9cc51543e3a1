//! Files of a process in /proc.

use std::fs;

use crate::{Errno, Result};

/// Reads a file of a process in /proc; `None` if the process is gone or there is no /proc.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`.
pub(crate) fn of_process(pid: u32, file: &str) -> Result<Option<String>> {
    match fs::read_to_string(format!("/proc/{pid}/{file}")).map_err(Errno::from) {
        Ok(content) => Ok(Some(content)),
        Err(error @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => Err(error),
        Err(_) => Ok(None),
    }
}
