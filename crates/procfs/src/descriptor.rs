//! Open descriptors of this process: the paths that name them, and what they are on.

use std::ffi::{CStr, OsStr};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::read::{field, number, read};

/// The path for reopening a descriptor's object, or for naming it in calls that have no descriptor form: a /proc link that
/// the kernel follows straight to the object, also for an `O_PATH` descriptor of a symlink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorPath {
    bytes: [u8; 32],
}

impl DescriptorPath {
    /// Creates the path of `descriptor`, valid in this process while it is open. Does not allocate.
    pub fn new(descriptor: impl AsFd) -> Self {
        const PREFIX: &[u8] = b"/proc/self/fd/";
        let mut bytes = [0; 32];
        bytes[..PREFIX.len()].copy_from_slice(PREFIX);
        let mut number = descriptor.as_fd().as_raw_fd() as u32;
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        for index in (PREFIX.len()..PREFIX.len() + digits).rev() {
            bytes[index] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        Self { bytes }
    }

    /// Returns the path as a C string.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).expect("14 bytes and at most 10 digits leave room for the NUL")
    }

    /// Returns the path.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.as_c_str().to_bytes()))
    }
}

/// Returns whether /proc is mounted, through which descriptors are named.
pub fn is_mounted() -> bool {
    Path::new("/proc/self/fd").is_dir()
}

/// Returns the ID of the mount that a descriptor is on. Unlike statx(2), reading it involves no file system, not even for a
/// permission check.
///
/// # Errors
/// Those of open(2) and read(2); [`ErrorKind::Unsupported`] if the kernel does not report it.
pub fn mount_id(descriptor: impl AsFd) -> Result<u64> {
    let text = read(&format!("/proc/self/fdinfo/{}", descriptor.as_fd().as_raw_fd()))?;
    field(&text, "mnt_id").and_then(number).ok_or_else(|| Error::from(ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use super::*;

    #[test]
    fn descriptor_paths_are_decimal() {
        for number in [0, 7, 10, 4_096, i32::MAX] {
            // SAFETY: the number is only formatted; no call is made with it.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            let path = DescriptorPath::new(descriptor);
            assert_eq!(path.as_c_str().to_str().unwrap(), format!("/proc/self/fd/{number}"));
            assert_eq!(path.as_path(), Path::new(&format!("/proc/self/fd/{number}")));
        }
    }

    #[test]
    fn a_descriptor_is_on_a_mount_of_the_table() {
        let root = std::fs::File::open("/proc").unwrap();
        let mount = mount_id(&root).unwrap();
        let table = crate::Process::OwnThread.mount_table().unwrap().unwrap();
        let found = crate::mount_table::mounts(&table).find(|listed| listed.number == mount).unwrap();
        assert_eq!(*found.kind, *b"proc");
    }
}
