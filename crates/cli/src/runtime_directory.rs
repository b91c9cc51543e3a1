//! The directory of the control sockets: one for each user, out of the reach of others.
//!
//! Each is opened once and checked as it is open: whoever may rename what is on the way to it changes nothing about it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::{Uid, geteuid};

use crate::exit::{Exit, Failure, Outcome};
use crate::mount_table;

/// A directory of control sockets that is open.
pub struct Directory {
    file: File,
    /// Where it was found.
    path: PathBuf,
    /// Whose it is.
    owner: u32,
}

impl Directory {
    /// A directory, no symlink, that nobody but its owner can write or search.
    fn open(path: PathBuf) -> Option<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&path, flags, Mode::empty()).ok()?);
        let status = file.metadata().ok()?;
        (status.mode() & 0o077 == 0).then(|| Self { owner: status.uid(), file, path })
    }

    /// The same, of the caller.
    fn open_own(path: PathBuf) -> Option<Self> {
        Self::open(path).filter(Self::is_own)
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path that leads to it, whatever is renamed: for this process, as long as the value lives.
    pub fn place(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// The user whose it is.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether it is the caller's.
    pub fn is_own(&self) -> bool {
        self.owner == geteuid().as_raw()
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Below a user's own runtime directory.
const SUBDIRECTORY: &str = "plyfs";

/// Every directory that may hold sockets which the caller may use: for root those of all users.
pub fn all() -> Vec<Directory> {
    let uid = geteuid();
    let (mut paths, served) = (vec![usual()], mount_table::served());
    if uid.is_root() {
        paths.extend(of_users("/run/user", "", None, &served).map(|path| path.join(SUBDIRECTORY)));
        paths.extend(of_users("/tmp", "plyfs-", None, &served));
    } else {
        paths.push(PathBuf::from(format!("/run/user/{uid}/{SUBDIRECTORY}")));
        paths.extend(of_users("/tmp", "plyfs-", Some(uid), &served));
    }
    paths.sort();
    paths.dedup();
    let may_be_used = |directory: &Directory| {
        // What is not root's in the place of root's is somebody's trick.
        directory.is_own() || (uid.is_root() && directory.path != usual())
    };
    paths.into_iter().filter_map(Directory::open).filter(may_be_used).collect()
}

/// Makes the caller's directory, mode 0700, or opens the one that is there: /run/plyfs for root, else below $XDG_RUNTIME_DIR,
/// else in /tmp under the user's id. There others may have taken that name; then it is another one.
pub fn make() -> Outcome<Directory> {
    let path = usual();
    let failed = |error: &io::Error| {
        let remedy = "make it, or set XDG_RUNTIME_DIR to a directory of yours";
        Failure::new(Exit::Failure, format!("cannot make {}: {error}; {remedy}", path.display()))
    };
    if let Err(error) = make_private(&path).as_ref().map_err(|error| (error.kind(), error))
        && error.0 != io::ErrorKind::AlreadyExists
    {
        return Err(failed(error.1));
    }
    if let Some(directory) = Directory::open_own(path.clone()) {
        return Ok(directory);
    }
    if path != in_tmp(geteuid()) {
        let message = format!("{} is not a directory of yours that only you can use; remove it", path.display());
        return Err(Failure::new(Exit::Permission, message));
    }
    if let Some(directory) =
        of_users("/tmp", "plyfs-", Some(geteuid()), &mount_table::served()).find_map(Directory::open_own)
    {
        return Ok(directory);
    }
    let path = PathBuf::from(format!("{}-{:016x}", path.display(), random().map_err(|error| failed(&error))?));
    make_private(&path).map_err(|error| failed(&error))?;
    Directory::open_own(path.clone()).ok_or_else(|| failed(&io::Error::from(io::ErrorKind::PermissionDenied)))
}

/// Waits until no other process of this user is about to mount. It may go on when the value is dropped.
pub fn turn() -> Outcome<Option<File>> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let directory = make()?;
    let end = Instant::now() + PATIENCE;
    while flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > end {
            // Another one hangs. Mounting twice at the same moment is then the lesser worry.
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(directory.file))
}

fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Where the caller's own directory is, unless others have taken its name.
fn usual() -> PathBuf {
    let uid = geteuid();
    if uid.is_root() {
        return PathBuf::from("/run/plyfs");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(directory) => directory.join(SUBDIRECTORY),
        None => in_tmp(uid),
    }
}

fn in_tmp(uid: Uid) -> PathBuf {
    PathBuf::from(format!("/tmp/plyfs-{uid}"))
}

/// A number that nobody can guess.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

/// The entries of a directory that are named after a user, with this in front, and belong to that user; of one user or of all.
/// After the user's id there may be more, behind a hyphen. What is a served mount is nobody's: its server might never answer.
fn of_users(directory: &str, prefix: &str, only: Option<Uid>, served: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        if served.iter().any(|mount| *mount == entry.path() || *mount == entry.path().join(SUBDIRECTORY)) {
            return None;
        }
        let name = entry.file_name();
        let uid: u32 = name.to_str()?.strip_prefix(prefix)?.split('-').next()?.parse().ok()?;
        let is_wanted = only.is_none_or(|only| only.as_raw() == uid);
        (is_wanted && fs::symlink_metadata(entry.path()).ok()?.uid() == uid).then(|| entry.path())
    })
}
