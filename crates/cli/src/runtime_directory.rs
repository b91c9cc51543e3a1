//! The directory of the control sockets: one for each user, out of the reach of others.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Uid, geteuid};

use crate::exit::{Exit, Failure, Outcome};

/// The caller's own directory: /run/plyfs for root, else below $XDG_RUNTIME_DIR, else in /tmp under the user's id.
pub fn own() -> PathBuf {
    let uid = geteuid();
    if uid.is_root() {
        return PathBuf::from("/run/plyfs");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(directory) => directory.join("plyfs"),
        None => in_tmp(uid),
    }
}

/// Every directory that may hold sockets which the caller may use: for root those of all users.
pub fn all() -> Vec<PathBuf> {
    let uid = geteuid();
    let mut directories = vec![own()];
    if uid.is_root() {
        directories.extend(of_users("/run/user", "").map(|path| path.join("plyfs")));
        directories.extend(of_users("/tmp", "plyfs-"));
    } else {
        directories.extend([PathBuf::from(format!("/run/user/{uid}/plyfs")), in_tmp(uid)]);
    }
    directories.sort();
    directories.dedup();
    directories.retain(|directory| is_trustworthy(directory));
    directories
}

/// Makes the caller's directory, mode 0700, or checks the one that is there.
pub fn make() -> Outcome<PathBuf> {
    let directory = own();
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let remedy = "make it, or set XDG_RUNTIME_DIR to a directory of yours";
            Err(Failure::new(Exit::Failure, format!("cannot make {}: {error}; {remedy}", directory.display())))
        }
        _ if is_trustworthy(&directory) => Ok(directory),
        _ => Err(Failure::new(
            Exit::Permission,
            format!("{} is not a directory of yours that only you can use; remove it", directory.display()),
        )),
    }
}

/// Waits until no other process of this user is about to mount. It may go on when the value is dropped.
pub fn turn() -> Outcome<Option<File>> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let directory = make()?;
    let Ok(file) = File::open(&directory) else { return Ok(None) };
    let end = Instant::now() + PATIENCE;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > end {
            // Another one hangs. Mounting twice at the same moment is then the lesser worry.
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(file))
}

/// A directory, no symlink, of the caller (for root: of anybody), that nobody else can write or search.
fn is_trustworthy(directory: &Path) -> bool {
    let uid = geteuid();
    fs::symlink_metadata(directory).is_ok_and(|metadata| {
        let owned = metadata.uid() == uid.as_raw() || (uid.is_root() && directory != own());
        metadata.is_dir() && owned && metadata.mode() & 0o077 == 0
    })
}

fn in_tmp(uid: Uid) -> PathBuf {
    PathBuf::from(format!("/tmp/plyfs-{uid}"))
}

/// The entries of a directory that are named after a user, with this in front, and belong to that user.
fn of_users(directory: &str, prefix: &'static str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let uid: u32 = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
        let metadata = fs::symlink_metadata(entry.path()).ok()?;
        (metadata.uid() == uid).then(|| entry.path())
    })
}
