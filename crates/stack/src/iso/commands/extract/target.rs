//! The directory that is written into. Everything is created by a single name in a directory that is open, and no symlink is followed,
//! so nothing can be written outside of it, whatever names and links an image has.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use bases::iso::WalkEntry;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno as SystemError;
use vnode::{Attributes, FileKind};

use super::error::ExtractionError;
use super::objects::{self, Restored};

/// Access to a directory whose contents are not complete.
const INCOMPLETE: Mode = Mode::RWXU;

/// How a directory is opened.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory that is written into, with those below it that are not complete.
pub(crate) struct Target {
    restored: Restored,
    /// From the directory itself, which has no name, to the innermost one.
    levels: Vec<Level>,
}

/// A directory that is not complete.
struct Level {
    name: Vec<u8>,
    directory: OwnedFd,
    completion: Completion,
}

/// What is set when a directory is complete.
enum Completion {
    /// Nothing: it existed before.
    None,
    /// The attributes of the root of the image, when that is added.
    Root,
    /// These attributes.
    Attributes(Box<Attributes>),
    /// This mode.
    Mode(Mode),
}

/// What came of adding an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// It exists.
    Done,
    /// It is a device, and these are left out.
    Omitted,
    /// Its directory could not be created.
    Unreachable,
}

impl Target {
    /// Opens a directory, which is created if it does not exist. With a umask, it is then one with the usual mode; without, it gets
    /// the attributes of the root of the image.
    ///
    /// # Errors
    /// Those of mkdir(2) and open(2).
    pub(crate) fn open(path: &Path, restored: Restored, umask: Option<Mode>) -> Result<Self, vnode::Errno> {
        let failed = |error: SystemError| vnode::Errno::new(error.raw_os_error());
        let completion = match rustix::fs::mkdir(path, INCOMPLETE) {
            Ok(()) => umask.map_or(Completion::Root, |umask| Completion::Mode(Mode::from_raw_mode(0o777) - umask)),
            Err(SystemError::EXIST) => Completion::None,
            Err(error) => return Err(failed(error)),
        };
        let directory = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty()).map_err(failed)?;
        Ok(Self { restored, levels: vec![Level { name: Vec::new(), directory, completion }] })
    }

    /// Returns whether any directory is not complete.
    pub(crate) fn is_open(&self) -> bool {
        !self.levels.is_empty()
    }

    /// Returns the path of the innermost directory.
    pub(crate) fn path(&self) -> Vec<u8> {
        let names: Vec<&[u8]> = self.levels.iter().skip(1).map(|level| level.name.as_slice()).collect();
        names.join(&b'/')
    }

    /// Returns whether the innermost directory is complete if an object with this path is the next one: that is not in it.
    pub(crate) fn leaves(&self, path: &[&[u8]]) -> bool {
        let depth = self.levels.len().saturating_sub(1);
        let is_on_the_way = |path: &[&[u8]]| {
            depth <= path.len() && self.levels.iter().skip(1).zip(path).all(|(level, name)| level.name == *name)
        };
        depth > 0 && !is_on_the_way(path)
    }

    /// Leaves the innermost directory, which gets its attributes.
    ///
    /// # Errors
    /// Those of setting them.
    pub(crate) fn leave(&mut self) -> Result<(), ExtractionError> {
        let Some(Level { directory, completion, .. }) = self.levels.pop() else { return Ok(()) };
        match completion {
            Completion::None | Completion::Root => {}
            Completion::Attributes(attributes) => objects::set(directory.as_fd(), &attributes, self.restored)?,
            Completion::Mode(mode) => rustix::fs::fchmod(&directory, mode)?,
        }
        Ok(())
    }

    /// Adds an object with this path. A directory becomes the innermost one; the others are complete then.
    ///
    /// # Errors
    /// [`ExtractionError`]; nothing is left of the object then.
    pub(crate) fn add(&mut self, path: &[&[u8]], entry: &WalkEntry) -> Result<Added, ExtractionError> {
        let depth = self.levels.len().saturating_sub(1);
        let Some((name, directories)) = path.split_last() else {
            self.add_root(&entry.attributes);
            return Ok(Added::Done);
        };
        let Some(level) = self.levels.last().filter(|_| depth == directories.len()) else {
            return Ok(Added::Unreachable);
        };
        let directory = level.directory.as_fd();
        match entry.attributes.kind {
            FileKind::Directory => {
                let level = add_directory(directory, name, &entry.attributes)?;
                self.levels.push(level);
                Ok(Added::Done)
            }
            FileKind::CharacterDevice | FileKind::BlockDevice if !self.restored.devices => Ok(Added::Omitted),
            _ => objects::create(directory, name, entry, self.restored).map(|()| Added::Done),
        }
    }

    fn add_root(&mut self, attributes: &Attributes) {
        if let Some(Level { completion: completion @ Completion::Root, .. }) = self.levels.first_mut() {
            *completion = Completion::Attributes(Box::new(*attributes));
        }
    }
}

/// Creates a directory, or opens the one that exists. Not that which a symlink leads to.
fn add_directory(parent: BorrowedFd<'_>, name: &[u8], attributes: &Attributes) -> Result<Level, ExtractionError> {
    let completion = match rustix::fs::mkdirat(parent, name, INCOMPLETE) {
        Ok(()) => Completion::Attributes(Box::new(*attributes)),
        Err(SystemError::EXIST) => Completion::None,
        Err(error) => return Err(error.into()),
    };
    let opened = rustix::fs::openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
    let directory = opened.map_err(|error| match (&completion, error) {
        (Completion::None, SystemError::NOTDIR | SystemError::LOOP) => SystemError::EXIST,
        (_, error) => error,
    })?;
    Ok(Level { name: name.to_vec(), directory, completion })
}
