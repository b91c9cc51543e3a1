//! The directories of the control sockets: one per user, inaccessible to others.
//!
//! Each directory is opened once and checked through its descriptor: renaming components of its path has no effect on it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::{DescriptorPath, IdKind, Process, is_machine_root};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::{Uid, geteuid};

use crate::exit::{Exit, Failure, Outcome};
use crate::mount_table;

/// An open directory of control sockets.
pub(crate) struct RuntimeDirectory {
    file: File,
    /// The path by which it was found.
    path: PathBuf,
    /// Uid of its owner.
    owner: u32,
}

impl RuntimeDirectory {
    /// Opens a directory that only its owner can write and search, without following a symlink.
    ///
    /// # Errors
    /// Those of opening it; `None` if others could.
    fn try_open(path: PathBuf) -> io::Result<Option<Self>> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&path, flags, Mode::empty())?);
        let status = file.metadata()?;
        Ok((status.mode() & 0o077 == 0).then(|| Self { owner: status.uid(), file, path }))
    }

    /// As [`RuntimeDirectory::try_open`], without the reason why it cannot be opened.
    fn open(path: PathBuf) -> Option<Self> {
        Self::try_open(path).ok().flatten()
    }

    /// As [`RuntimeDirectory::open`], but only if the caller owns it.
    fn open_own(path: PathBuf) -> Option<Self> {
        Self::open(path).filter(Self::is_own)
    }

    /// Returns the path by which it was found.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path that resolves to it regardless of renames, in this process, as long as the value lives.
    pub(crate) fn descriptor_path(&self) -> PathBuf {
        DescriptorPath::new(&self.file).as_path().to_owned()
    }

    /// Returns the uid of its owner.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    /// Returns whether the caller owns it.
    pub(crate) fn is_own(&self) -> bool {
        self.owner == geteuid().as_raw()
    }
}

impl AsFd for RuntimeDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Name below a user's own runtime directory.
const SUBDIRECTORY: &str = "plyfs";

/// Returns every directory that may contain sockets for the caller to use: for root, those of all users.
pub(crate) fn all() -> Vec<RuntimeDirectory> {
    let uid = geteuid();
    let (mut paths, served) = (vec![default_path()], mount_table::fuse_mount_points());
    if uid.is_root() {
        paths.extend(user_directories("/run/user", "", None, &served).map(|path| path.join(SUBDIRECTORY)));
        paths.extend(user_directories("/tmp", "plyfs-", None, &served));
    } else {
        paths.push(PathBuf::from(format!("/run/user/{uid}/{SUBDIRECTORY}")));
        paths.extend(user_directories("/tmp", "plyfs-", Some(uid), &served));
    }
    paths.sort();
    paths.dedup();
    let may_be_used = |directory: &RuntimeDirectory| {
        // A directory at root's path that root does not own is an attack.
        directory.is_own() || (uid.is_root() && directory.path != default_path())
    };
    paths.into_iter().filter_map(RuntimeDirectory::open).filter(may_be_used).collect()
}

/// Creates the caller's directory with mode 0700, or opens the existing one: /run/plyfs for root, else below $XDG_RUNTIME_DIR,
/// else in /tmp under the user's id outside of its user namespace. In /tmp other users may have taken that name; then it gets another name.
pub(crate) fn make() -> Outcome<RuntimeDirectory> {
    let path = default_path();
    let failed = |error: &io::Error| {
        let remedy = "create it, or set XDG_RUNTIME_DIR to a directory that you own";
        Failure::new(Exit::Failure, format!("cannot create {}: {error}; {remedy}", path.display()))
    };
    if let Err(error) = make_private(&path).as_ref().map_err(|error| (error.kind(), error))
        && error.0 != io::ErrorKind::AlreadyExists
    {
        return Err(failed(error.1));
    }
    match RuntimeDirectory::try_open(path.clone()) {
        Ok(Some(directory)) if directory.is_own() => return Ok(directory),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
            let remedy = "raise the limit of open files (ulimit -n), or close some";
            return Err(Failure::new(Exit::Failure, format!("cannot open {}: {error}; {remedy}", path.display())));
        }
        _ => {}
    }
    if path != tmp_path(geteuid()) {
        let message = format!("{} is not a directory that only you can access; remove it", path.display());
        return Err(Failure::new(Exit::Permission, message));
    }
    if let Some(directory) = user_directories("/tmp", "plyfs-", Some(geteuid()), &mount_table::fuse_mount_points())
        .find_map(RuntimeDirectory::open_own)
    {
        return Ok(directory);
    }
    let path = PathBuf::from(format!("{}-{:016x}", path.display(), random().map_err(|error| failed(&error))?));
    make_private(&path).map_err(|error| failed(&error))?;
    RuntimeDirectory::open_own(path.clone()).ok_or_else(|| failed(&io::Error::from(io::ErrorKind::PermissionDenied)))
}

/// Waits until no other process of this user is about to mount. The next process may continue once the value is dropped.
pub(crate) fn lock_mounting() -> Outcome<Option<File>> {
    const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
    let directory = make()?;
    let end = Instant::now() + LOCK_TIMEOUT;
    while flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > end {
            // Another process hangs. Mounting twice at the same moment is then the lesser problem.
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(directory.file))
}

fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Returns whether /run is the caller's: it is root, not only of a user namespace that has the /run of the machine.
fn owns_run() -> bool {
    let is_own = || fs::metadata("/run").is_ok_and(|run| run.uid() == geteuid().as_raw());
    geteuid().is_root() && (is_machine_root() || is_own())
}

/// Returns the path of the caller's own directory, unless others have taken its name.
fn default_path() -> PathBuf {
    let uid = geteuid();
    if owns_run() {
        return PathBuf::from("/run/plyfs");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(directory) => directory.join(SUBDIRECTORY),
        None => tmp_path(uid),
    }
}

fn tmp_path(uid: Uid) -> PathBuf {
    PathBuf::from(format!("/tmp/plyfs-{}", number_outside(uid)))
}

/// Returns the number of a user outside of the caller's user namespace.
fn number_outside(uid: Uid) -> u32 {
    let map = Process::Own.id_map(IdKind::User).ok().flatten();
    map.and_then(|map| map.outside(uid.as_raw())).unwrap_or(uid.as_raw())
}

/// Returns an unpredictable number.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

/// Returns the entries of a directory whose names consist of this prefix and a user id and that belong to that user; of one
/// user or of all. A hyphen and more may follow the user's id. Mount points of served file systems are skipped: their servers
/// might never answer.
fn user_directories(
    directory: &str,
    prefix: &str,
    only: Option<Uid>,
    served: &[PathBuf],
) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        if served.iter().any(|mount| *mount == entry.path() || *mount == entry.path().join(SUBDIRECTORY)) {
            return None;
        }
        let name = entry.file_name();
        let uid: u32 = name.to_str()?.strip_prefix(prefix)?.split('-').next()?.parse().ok()?;
        let is_wanted = only.is_none_or(|only| number_outside(only) == uid);
        let owner = only.map_or(uid, Uid::as_raw);
        (is_wanted && fs::symlink_metadata(entry.path()).ok()?.uid() == owner).then(|| entry.path())
    })
}
