//! The connection between the kernel and the server of a FUSE mount, in the file system that the kernel has for them.

use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::fs::minor;

/// Mount point of the file system of connections.
pub(crate) const DIRECTORY: &str = "/sys/fs/fuse/connections";

/// Aborts the connection of the mount with this device number: all requests fail with `ECONNABORTED`, later ones with `ENOTCONN`, and
/// data that the kernel has not passed on is lost.
///
/// # Errors
/// `EACCES` for other users than root and the one who mounted; `ENOENT` if the file system of connections is not mounted.
pub(crate) fn abort(device: u64) -> io::Result<()> {
    fs::write(abort_file(device), "1")
}

/// Returns the file through which a connection is aborted. Mounts of FUSE have no major number.
fn abort_file(device: u64) -> PathBuf {
    PathBuf::from(format!("{DIRECTORY}/{}/abort", minor(device)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_numbered_as_the_devices_of_their_mounts() {
        let device = rustix::fs::makedev(0, 1_234);
        assert_eq!(abort_file(device), PathBuf::from("/sys/fs/fuse/connections/1234/abort"));
    }
}
