//! What each sample does, whoever wrote it: one function a sample, over a mount of it and the directories below.
//!
//! Each function is given a way to mount, [`Mounting`], and calls it with a [`TestDirectories`] when the directories below are as
//! they should be. What it gets back is dropped to unmount. Options are not here: whoever mounts gives them, and the
//! function says which it needs.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

mod access;
mod branches;
mod data;
mod directories;
mod limits;
mod removal;

use std::any::Any;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) use access::{aclfs, hidefs, snoopfs};
pub(crate) use branches::{lb2fs, unionfs};
pub(crate) use data::{cryptfs, rot13fs, sealfs, uuencodefs, zstdfs};
pub(crate) use directories::usenetfs;
pub(crate) use limits::quotafs;
pub(crate) use removal::{keepfs, trashfs, versionfs};

/// Mounts a new instance of the sample on [`TestDirectories::mount`], for all users, over [`TestDirectories::base`], or, of samples with
/// two branches, over [`TestDirectories::first`] and [`TestDirectories::second`]. Dropping the answer unmounts.
pub(crate) type Mounting<'a> = &'a dyn Fn(&TestDirectories) -> Box<dyn Any>;

/// A user without a name.
pub(crate) const USER: u32 = 54_321;

/// Directories for one test, gone at its end.
pub(crate) struct TestDirectories {
    directory: tempfile::TempDir,
}

impl TestDirectories {
    /// New directories, the one below open to all users.
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("plyfs-comparison-").tempdir().unwrap();
        let directories = TestDirectories { directory };
        fs::set_permissions(directories.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for directory in [directories.mount(), directories.first(), directories.second()] {
            fs::create_dir(directory).unwrap();
        }
        fs::set_permissions(directories.base(), fs::Permissions::from_mode(0o777)).unwrap();
        directories
    }

    /// The mount point.
    pub(crate) fn mount(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    /// The directory below, of samples with one branch.
    pub(crate) fn base(&self) -> PathBuf {
        self.first()
    }

    /// The first directory below, of samples with two branches.
    pub(crate) fn first(&self) -> PathBuf {
        self.directory.path().join("first")
    }

    /// The second.
    pub(crate) fn second(&self) -> PathBuf {
        self.directory.path().join("second")
    }

    /// The file that messages go to, a line each: whoever mounts a sample that tells of something opens it.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

/// Whether FUSE file systems can be mounted here by root; says so if not, since the test is then skipped.
pub(crate) fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: needs root and /dev/fuse");
    }
    can
}

/// What a shell prints as another user, or `None` if it fails.
pub(crate) fn as_user(commands: &str) -> Option<String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", commands]).stdin(Stdio::null()).uid(USER).gid(USER);
    let output = shell.output().expect("a shell runs");
    output.status.success().then(|| String::from_utf8(output.stdout).expect("text").trim_end().to_owned())
}

/// The names in a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The error number of what should have failed.
pub(crate) fn error<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().expect("an error of the system")
}

/// Does the ioctl `_IOW('F', 1, data)` to a file or directory.
pub(crate) fn set(path: &Path, data: &[u8]) -> std::io::Result<()> {
    let file = fs::File::open(path)?;
    let command = 1 << 30 | (data.len() as u64) << 16 | u64::from(b'F') << 8 | 1;
    // SAFETY: the command says how many bytes are read, and so many are there.
    match unsafe { libc::ioctl(file.as_raw_fd(), command, data.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Waits until the condition holds.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
