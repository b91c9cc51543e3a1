//! fusermount3(1), the helper that mounts for users: starting whichever is installed, and unmounting by it.

use super::error::MountError;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Names of the set-user-ID-root helper that mounts for users. The second is that of older releases.
pub(crate) const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

pub(crate) fn run_first_installed<T>(start: impl Fn(&&str) -> io::Result<T>) -> Result<T, MountError> {
    for helper in &HELPERS {
        match start(helper) {
            Ok(child) => return Ok(child),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(MountError::System { what: "starting fusermount3", error }),
        }
    }
    Err(MountError::NoHelper)
}

/// Unmounts what is mounted on a name in a directory: the helper accepts only the directory in which it is started.
pub(crate) fn unmount_by_helper(directory: &Path, name: &OsStr, lazy: bool) -> io::Result<()> {
    let start = |helper: &&str| {
        let mut command = Command::new(helper);
        command.arg("-u");
        if lazy {
            command.arg("-z");
        }
        command.arg("--").arg(name).current_dir(directory).stdin(Stdio::null()).output()
    };
    let output = run_first_installed(start).map_err(io::Error::other)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    if message.to_lowercase().contains("busy") {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    Err(io::Error::other(message.trim().to_owned()))
}
