//! How far the kernel reads ahead in files of a mount, which it lets root set (`/sys/class/bdi`, sysfs-class-bdi).

use std::fs::OpenOptions;
use std::io::{self, Write};

/// Default of [`MountOptions::read_ahead`](crate::fuse::MountOptions::read_ahead) in bytes. The kernel's own, 128 KiB, keeps neither a
/// disk nor the server busy; more than this gains little.
const DEFAULT: u32 = 512 << 10;

/// What the kernel rounds down to, in bytes.
const PAGE: u32 = 4096;

/// Sets how far the kernel reads ahead on the file system with this device number, in bytes, or to the default. What is requested and
/// cannot be set is an error; without a request the kernel's own value stays.
///
/// # Errors
/// `EACCES` for other users than root; `EROFS` and `ENOENT` in containers.
pub(crate) fn set(device: u64, requested: Option<u32>) -> io::Result<()> {
    let kilobytes = requested.unwrap_or(DEFAULT).div_ceil(PAGE) * (PAGE / 1024);
    let path = format!("/sys/class/bdi/{}:{}/read_ahead_kb", rustix::fs::major(device), rustix::fs::minor(device));
    let file = OpenOptions::new().write(true).open(path);
    match file.and_then(|mut file| file.write_all(kilobytes.to_string().as_bytes())) {
        Err(_) if requested.is_none() => Ok(()),
        result => result,
    }
}
