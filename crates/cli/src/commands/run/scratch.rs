//! The scratch directory of a fork: what was forked, and the branch of changes.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;
use serde::{Deserialize, Serialize};
use vnode::{FileSystemRef, Timestamp};

use crate::exit::{Exit, Failure, Outcome};

/// The file that tells what was forked.
const DESCRIPTION: &str = "fork.json";
/// What that file is called when the fork is no more, and the rest is being removed.
const REMOVED: &str = "removed.json";
/// The branch of changes.
const CHANGES: &str = "changes";

/// A scratch directory.
pub struct Scratch {
    path: PathBuf,
    /// The directory was made for the fork.
    is_made: bool,
    /// No command has run in it.
    is_new: Cell<bool>,
    pub description: Description,
}

/// What was forked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The stack, in its standard form.
    pub stack: String,
    /// Where the fork is seen.
    #[serde(with = "path_bytes")]
    pub at: PathBuf,
    /// When it began: seconds since 1970, and nanoseconds.
    began: Cell<(i64, u32)>,
}

impl Description {
    pub fn new(stack: String, at: PathBuf) -> Self {
        Self { stack, at, began: Cell::new((0, 0)) }
    }
}

impl Scratch {
    /// The one that is there; `None` if there is no fork.
    pub fn open(path: &Path) -> Outcome<Option<Self>> {
        if path.join(REMOVED).exists() {
            remove_rest(path)?;
        }
        let text = match fs::read_to_string(path.join(DESCRIPTION)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            text => text.map_err(|error| unusable(path, &error))?,
        };
        // Whoever wrote it says what is committed, and where.
        let owner = fs::metadata(path.join(DESCRIPTION)).map_err(|error| unusable(path, &error))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            let message = format!("the fork in {} belongs to another user; become that user", path.display());
            return Err(Failure::new(Exit::Permission, message));
        }
        let description = serde_json::from_str(&text).map_err(|error| unusable(path, &error))?;
        let path = path.canonicalize().map_err(|error| unusable(path, &error))?;
        Ok(Some(Self { path, is_made: true, is_new: Cell::new(false), description }))
    }

    /// Makes one, here or where the user's state is, out of the reach of the command.
    pub fn make(path: Option<&Path>, description: Description, stack: &[PathBuf], is_users: bool) -> Outcome<Self> {
        let (path, is_made) = match path {
            Some(path) => (path.to_owned(), make_directory(path, false)?),
            None => {
                let path = default_path(is_users)?;
                (path.clone(), make_directory(&path, true)?)
            }
        };
        let path = path.canonicalize().map_err(|error| unusable(&path, &error))?;
        let scratch = Self { path, is_made, is_new: Cell::new(true), description };
        let made = scratch.refuse_within(stack).and_then(|()| scratch.fill());
        if made.is_err() {
            scratch.forget_if_new();
        }
        made.map(|()| scratch)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether no command has run in it.
    pub fn is_new(&self) -> bool {
        self.is_new.get()
    }

    /// When the fork began.
    pub fn began(&self) -> Timestamp {
        let (seconds, nanoseconds) = self.description.began.get();
        Timestamp { seconds, nanoseconds }
    }

    /// The branch of changes.
    pub fn changes(&self) -> Outcome<FileSystemRef> {
        stack::build_directory(&self.path.join(CHANGES)).map_err(|error| unusable(&self.path, &error))
    }

    /// The fork begins now.
    pub fn note_begin(&self, time: Timestamp) -> Outcome {
        self.description.began.set((time.seconds, time.nanoseconds));
        let text = serde_json::to_string(&self.description).map_err(|error| unusable(&self.path, &error))?;
        fs::write(self.path.join(DESCRIPTION), text).map_err(|error| unusable(&self.path, &error))
    }

    /// Removes it, if no command has run in it yet.
    pub fn forget_if_new(&self) {
        if self.is_new() {
            // What led here is told.
            let _ = self.remove();
        }
    }

    /// Removes the changes and all about them. Stopped half-way, it is no fork any more.
    pub fn remove(&self) -> Outcome {
        match fs::rename(self.path.join(DESCRIPTION), self.path.join(REMOVED)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(not_removed(&self.path, &error)),
            _ => remove_rest(&self.path)?,
        }
        if self.is_made {
            // Somebody may have put something else there.
            let _ = fs::remove_dir(&self.path);
        }
        Ok(())
    }

    fn refuse_within(&self, stack: &[PathBuf]) -> Outcome {
        // Where the fork takes the place of the root it is covered.
        let is_covered = self.description.at == Path::new("/");
        let is_within = |directory: &&PathBuf| {
            directory
                .canonicalize()
                .is_ok_and(|directory| !(is_covered && directory == Path::new("/")) && self.path.starts_with(directory))
        };
        match stack.iter().find(is_within) {
            Some(directory) => Err(Failure::new(
                Exit::Usage,
                format!(
                    "the scratch directory {} lies within {}, which is forked; give another with --scratch DIR",
                    self.path.display(),
                    directory.display()
                ),
            )),
            None => Ok(()),
        }
    }

    fn fill(&self) -> Outcome {
        let changes = self.path.join(CHANGES);
        DirBuilder::new().mode(0o700).create(&changes).map_err(|error| unusable(&self.path, &error))?;
        // Without attributes of this kind moved directories and copied files would not be known again.
        let probe = |name: &str| {
            rustix::fs::setxattr(&changes, name, b"y", XattrFlags::empty())?;
            rustix::fs::removexattr(&changes, name)
        };
        probe("trusted.plyfs.probe").or_else(|_| probe("user.plyfs.probe")).map_err(|error| {
            let message = format!(
                "the file system of {} keeps no extended attributes ({error}); give another with --scratch DIR",
                self.path.display()
            );
            Failure::new(Exit::Stack, message)
        })
    }
}

/// Removes what is left of a fork that is no more.
fn remove_rest(path: &Path) -> Outcome {
    let is_gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(not_removed(path, &error)),
        _ => Ok(()),
    };
    is_gone(fs::remove_dir_all(path.join(CHANGES)))?;
    is_gone(fs::remove_file(path.join(REMOVED)))
}

fn not_removed(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot remove {}: {error}; remove what is left of it", path.display());
    Failure::new(Exit::Failure, message)
}

/// Makes the directory if it is missing: whether it was. One that is there has to be empty.
fn make_directory(path: &Path, with_parents: bool) -> Outcome<bool> {
    match DirBuilder::new().mode(0o700).recursive(false).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound && with_parents => {
            let parent = path.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().mode(0o700).recursive(true).create(parent).map_err(|error| unusable(path, &error))?;
            make_directory(path, false)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
                Ok(true) => Ok(false),
                Ok(false) => {
                    let message = format!(
                        "{} is not empty, and has no fork; give a new directory with --scratch",
                        path.display()
                    );
                    Err(Failure::new(Exit::Usage, message))
                }
                Err(error) => Err(unusable(path, &error)),
            }
        }
        Err(error) => Err(unusable(path, &error)),
    }
}

/// A new directory in the state of the system, or of a user.
fn default_path(is_users: bool) -> Outcome<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = if is_users {
        variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state"))).ok_or_else(|| {
            Failure::new(Exit::Usage, "there is no home directory to keep the changes in; give --scratch DIR")
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

/// Paths as text where they are text, and as their bytes where not.
mod path_bytes {
    use super::{OsStr, OsStrExt, OsString, OsStringExt, Path, PathBuf};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Text {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = path.as_os_str().as_bytes();
        String::from_utf8(bytes.to_vec()).map_or_else(|_| Text::Bytes(bytes.to_vec()), Text::Text).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(match Text::deserialize(deserializer)? {
            Text::Text(text) => PathBuf::from(OsStr::new(&text)),
            Text::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        })
    }
}
