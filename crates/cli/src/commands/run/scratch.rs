//! The scratch directory of a fork: the description of what was forked, and the branch of changes.
//!
//! Its contents determine what is committed, and where: it belongs to the caller, and nobody else can access it. The branch of
//! changes has the owner and the mode of the forked directory. The directory is opened once, and everything in it is accessed
//! through that descriptor.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use procfs::DescriptorPath;
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use vnode::{FileSystemRef, Name, Timestamp};

use crate::commands::progress;
use crate::exit::{Exit, Failure, Outcome};

/// The file that describes what was forked.
const DESCRIPTION_FILE: &str = "fork.json";
/// Name of that file when the fork no longer exists and the rest is being removed.
const REMOVED_FILE: &str = "removed.json";
/// Name of the branch of changes.
const CHANGES_DIRECTORY: &str = "changes";

/// A scratch directory.
pub(crate) struct ScratchDirectory {
    directory: PrivateDirectory,
    /// The directory was created for the fork.
    was_created: bool,
    /// No command has run in the fork.
    is_new: Cell<bool>,
    pub description: ForkDescription,
}

/// The description of what was forked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ForkDescription {
    /// The stack, in its canonical form.
    pub stack: String,
    /// The path at which the fork is visible.
    #[serde(with = "path_bytes")]
    pub at: PathBuf,
    /// Start time of the fork: seconds since 1970, and nanoseconds.
    began: Cell<(i64, u32)>,
}

impl ForkDescription {
    pub(crate) fn new(stack: String, at: PathBuf) -> Self {
        Self { stack, at, began: Cell::new((0, 0)) }
    }
}

impl ScratchDirectory {
    /// Opens the existing fork; returns `None` if the directory contains none.
    ///
    /// # Errors
    /// Fails if the directory is not accessible to the caller alone, or cannot be read.
    pub(crate) fn open(path: &Path) -> Outcome<Option<Self>> {
        let directory = match PrivateDirectory::open(path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            directory => directory.map_err(|error| unusable(path, &error))?,
        };
        let has = |name: &str| directory.at(name).symlink_metadata().is_ok();
        if !has(DESCRIPTION_FILE) && !has(REMOVED_FILE) {
            return Ok(None);
        }
        directory.check_private()?;
        if has(REMOVED_FILE) {
            directory.remove_remains()?;
        }
        let Some(text) = directory.read_description()? else { return Ok(None) };
        let description = serde_json::from_str(&text).map_err(|error| unusable(path, &error))?;
        Ok(Some(Self { directory, was_created: true, is_new: Cell::new(false), description }))
    }

    /// Creates the scratch directory at `path`, or in the user's state directory, inaccessible to the command.
    ///
    /// # Errors
    /// Fails if an existing directory is not the caller's alone, or not empty; or if it is inside what is forked.
    pub(crate) fn create(
        path: Option<&Path>,
        description: ForkDescription,
        stack: &[PathBuf],
        is_users: bool,
    ) -> Outcome<Self> {
        let (path, was_created) = match path {
            Some(path) => (path.to_owned(), make_directory(path, false)?),
            None => {
                let path = default_path(is_users)?;
                (path.clone(), make_directory(&path, true)?)
            }
        };
        let directory = PrivateDirectory::open(&path).map_err(|error| unusable(&path, &error))?;
        directory.check_suitable()?;
        let scratch = Self { directory, was_created, is_new: Cell::new(true), description };
        let created = scratch.check_outside_branches(stack).and_then(|()| scratch.directory.restrict_access());
        let created = created.and_then(|()| scratch.create_changes());
        if created.is_err() {
            scratch.remove_if_new();
        }
        created.map(|()| scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory.path
    }

    /// Returns a descriptor of the directory.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.file.as_fd()
    }

    /// Returns whether no command has run in it.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new.get()
    }

    /// Records that a command runs in it: from now on it is removed only on request.
    pub(crate) fn mark_used(&self) {
        self.is_new.set(false);
    }

    /// Returns the start time of the fork.
    pub(crate) fn start_time(&self) -> Timestamp {
        let (seconds, nanoseconds) = self.description.began.get();
        Timestamp { seconds, nanoseconds }
    }

    /// Returns the branch of changes.
    pub(crate) fn changes(&self) -> Outcome<FileSystemRef> {
        stack::build_directory(&self.directory.at(CHANGES_DIRECTORY)).map_err(|error| unusable(self.path(), &error))
    }

    /// Records the start time of the fork.
    pub(crate) fn record_start(&self, time: Timestamp) -> Outcome {
        self.description.began.set((time.seconds, time.nanoseconds));
        let text = serde_json::to_string(&self.description).map_err(|error| unusable(self.path(), &error))?;
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(self.directory.at(DESCRIPTION_FILE));
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| unusable(self.path(), &error))
    }

    /// Removes the fork, if no command has run in it yet.
    pub(crate) fn remove_if_new(&self) {
        if self.is_new() {
            // The error that led here is reported.
            let _ = self.remove();
        }
    }

    /// Removes the changes and all data about them. If interrupted, what remains is no longer a fork.
    pub(crate) fn remove(&self) -> Outcome {
        match fs::rename(self.directory.at(DESCRIPTION_FILE), self.directory.at(REMOVED_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(not_removed(self.path(), &error)),
            _ => self.directory.remove_remains()?,
        }
        if self.was_created {
            // Other files may have been created there.
            let _ = fs::remove_dir(self.path());
        }
        Ok(())
    }

    fn check_outside_branches(&self, stack: &[PathBuf]) -> Outcome {
        // A fork of the root covers it.
        let is_covered = self.description.at == Path::new("/");
        let is_within = |directory: &&PathBuf| {
            directory.canonicalize().is_ok_and(|directory| {
                !(is_covered && directory == Path::new("/")) && self.path().starts_with(directory)
            })
        };
        match stack.iter().find(is_within) {
            Some(directory) => Err(Failure::new(
                Exit::Usage,
                format!(
                    "the scratch directory {} lies within {}, which is forked; give another with --scratch DIR",
                    self.path().display(),
                    directory.display()
                ),
            )),
            None => Ok(()),
        }
    }

    fn create_changes(&self) -> Outcome {
        let changes = self.directory.at(CHANGES_DIRECTORY);
        DirBuilder::new().mode(0o700).create(&changes).map_err(|error| unusable(self.path(), &error))?;
        // Without attributes of this kind, moved directories and copied files could not be recognised again.
        let probe = format!("{}.plyfs.probe", stack::fork::attributes_of_marks());
        let set = rustix::fs::setxattr(&changes, &*probe, b"y", XattrFlags::empty());
        set.and_then(|()| rustix::fs::removexattr(&changes, &*probe)).map_err(|error| {
            let message = format!(
                "the file system of {} does not support these extended attributes ({probe}: {error}); give another with --scratch DIR",
                self.path().display()
            );
            Failure::new(Exit::Stack, message)
        })
    }
}

/// An open directory, whatever its path resolves to by now.
struct PrivateDirectory {
    file: File,
    /// Path of the directory when it was opened, without symlinks.
    path: PathBuf,
}

impl PrivateDirectory {
    /// Opens the existing directory.
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let path = fs::read_link(descriptor_path(&file))?;
        Ok(Self { file, path })
    }

    /// Returns a path to this name in it.
    fn at(&self, name: &str) -> PathBuf {
        descriptor_path(&self.file).join(name)
    }

    /// Fails if it belongs to another user, or others can access it.
    fn check_private(&self) -> Outcome {
        let status = self.file.metadata().map_err(|error| unusable(&self.path, &error))?;
        self.check_owner(&status)?;
        self.check_permissions(&status, 0o077, &self.path, 0o700)
    }

    /// Fails if no fork can begin in it: it must be empty and owned by the caller, and only the caller may have write
    /// permission.
    fn check_suitable(&self) -> Outcome {
        let status = self.file.metadata().map_err(|error| unusable(&self.path, &error))?;
        self.check_owner(&status)?;
        self.check_empty()?;
        self.check_permissions(&status, 0o022, &self.path, 0o700)
    }

    /// Removes all access of others.
    fn restrict_access(&self) -> Outcome {
        rustix::fs::fchmod(&self.file, Mode::RWXU).map_err(|error| unusable(&self.path, &error))?;
        // Entries that were created before that.
        self.check_empty()
    }

    fn check_empty(&self) -> Outcome {
        let mut entries = fs::read_dir(descriptor_path(&self.file)).map_err(|error| unusable(&self.path, &error))?;
        match entries.next() {
            None => Ok(()),
            Some(_) => {
                let path = self.path.display();
                let message =
                    format!("{path} is not empty and contains no fork; give a new directory with --scratch DIR");
                Err(Failure::new(Exit::Usage, message))
            }
        }
    }

    fn check_owner(&self, status: &Metadata) -> Outcome {
        if status.uid() == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        let path = self.path.display();
        let message = format!(
            "the scratch directory {path} belongs to another user; run as that user, or give another one with --scratch DIR"
        );
        Err(Failure::new(Exit::Permission, message))
    }

    /// Fails if others have any of these permissions: what they may have done to a fork must not be committed.
    fn check_permissions(&self, status: &Metadata, rights: u32, path: &Path, private: u32) -> Outcome {
        if status.mode() & rights == 0 {
            return Ok(());
        }
        let name = path.display();
        let message = format!(
            "other users have access to {name}, and could determine what is committed; if they have changed nothing: \
             chmod {private:o} {name}"
        );
        Err(Failure::new(Exit::Permission, message))
    }

    /// Returns the contents of the file that describes what was forked, if it exists. Its author decides what is committed, and
    /// where.
    fn read_description(&self) -> Outcome<Option<String>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::RDONLY | OFlags::CLOEXEC;
        let failed = |error: io::Error| unusable(&self.path, &error);
        let mut file = match rustix::fs::openat(&self.file, DESCRIPTION_FILE, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => File::from(file.map_err(|error| failed(error.into()))?),
        };
        let status = file.metadata().map_err(failed)?;
        self.check_owner(&status)?;
        self.check_permissions(&status, 0o022, &self.path.join(DESCRIPTION_FILE), 0o600)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        Ok(Some(text))
    }

    /// Removes the remains of a fork that no longer exists.
    fn remove_remains(&self) -> Outcome {
        let is_gone = |result: io::Result<()>| match result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(not_removed(&self.path, &error)),
            _ => Ok(()),
        };
        self.remove_changes()?;
        is_gone(fs::remove_file(self.at(REMOVED_FILE)))
    }

    /// Removes the branch of changes, which may be too deep for a recursion.
    fn remove_changes(&self) -> Outcome {
        let directory =
            stack::build_directory(&descriptor_path(&self.file)).map_err(|error| not_removed(&self.path, &error))?;
        let changes = Name::new(CHANGES_DIRECTORY.as_bytes()).map_err(|error| not_removed(&self.path, &error))?;
        match progress::with_progress("run: discarding", |_| stack::fork::remove_tree(&directory.root(), changes)) {
            Err(error) if error != vnode::Errno::ENOENT => Err(not_removed(&self.path, &error)),
            _ => Ok(()),
        }
    }
}

/// Returns a path by which the kernel finds the open file.
fn descriptor_path(file: &File) -> PathBuf {
    DescriptorPath::new(file).as_path().to_owned()
}

fn not_removed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    let message = format!("cannot remove {}: {error}; remove the rest by hand", path.display());
    Failure::new(Exit::Failure, message)
}

/// Creates the directory if it is missing, and returns whether it was.
fn make_directory(path: &Path, with_parents: bool) -> Outcome<bool> {
    match DirBuilder::new().mode(0o700).recursive(false).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound && with_parents => {
            let parent = path.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().mode(0o700).recursive(true).create(parent).map_err(|error| unusable(path, &error))?;
            make_directory(path, false)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(unusable(path, &error)),
    }
}

/// Returns the path of a new directory in the state directory of the system or of a user.
fn default_path(is_users: bool) -> Outcome<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = if is_users {
        variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state"))).ok_or_else(|| {
            Failure::new(Exit::Usage, "there is no home directory for the changes; give --scratch DIR")
        })?
    } else {
        PathBuf::from("/var/lib")
    };
    let name = format!("{}-{}", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S"), std::process::id());
    Ok(state.join("plyfs/forks").join(name))
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    let message =
        format!("cannot use the scratch directory {}: {error}; give another with --scratch DIR", path.display());
    Failure::new(Exit::Stack, message)
}

/// Serializes paths as text if they are valid text, otherwise as bytes.
mod path_bytes {
    use super::{OsStr, OsStrExt, OsString, OsStringExt, Path, PathBuf};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum TextOrBytes {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = path.as_os_str().as_bytes();
        String::from_utf8(bytes.to_vec())
            .map_or_else(|_| TextOrBytes::Bytes(bytes.to_vec()), TextOrBytes::Text)
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(match TextOrBytes::deserialize(deserializer)? {
            TextOrBytes::Text(text) => PathBuf::from(OsStr::new(&text)),
            TextOrBytes::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        })
    }
}
