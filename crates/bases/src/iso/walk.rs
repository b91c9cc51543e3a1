//! Walks over all objects of an image, for listing and extracting them.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use vnode::{Attributes, Caller, Cookie, Errno, NameBuf, OpenDirectoryRef, VnodeRef};

/// Number of entries of a directory that are read at a time.
const BATCH: usize = 1_000;

/// An object that a walk came to.
#[derive(Clone)]
pub struct WalkEntry {
    /// Path from the root, without a slash at the beginning; empty for the root.
    pub path: Vec<u8>,
    /// The object.
    pub vnode: VnodeRef,
    /// Its attributes.
    pub attributes: Attributes,
}

/// What a walk could not read. It continues after that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkError {
    /// Path of the object from the root. An error of a directory that comes after objects in it means that there may be more.
    pub path: Vec<u8>,
    /// The error.
    pub errno: Errno,
}

/// The objects of an image, each directory before what is in it, in the order of their records. Takes memory for the directories on
/// the way to an object, not for all.
pub struct Walk {
    caller: Caller,
    /// Where the walk starts, before that is visited.
    start: Option<VnodeRef>,
    /// The directory that was visited last, to be entered next, with its name.
    entering: Option<(VnodeRef, Vec<u8>)>,
    /// Number of directories on the way to an object at most.
    depth_max: usize,
    /// Directories on the way, the innermost last.
    levels: Vec<Level>,
    /// Path of the innermost one.
    path: Vec<u8>,
}

/// A directory whose entries are being visited.
struct Level {
    vnode: VnodeRef,
    open: OpenDirectoryRef,
    /// Position after the entries that have been read.
    cookie: Cookie,
    /// Entries that have been read and not visited.
    names: VecDeque<NameBuf>,
    /// Length of the path of the directory that contains it.
    outer_path: usize,
}

impl Walk {
    /// Returns the walk over an object, which has this path, and everything in it.
    pub(crate) fn new(start: VnodeRef, path: Vec<u8>) -> Self {
        let (start, levels) = (Some(start), Vec::new());
        Self { caller: Caller::server(), start, entering: None, depth_max: usize::MAX, levels, path }
    }

    /// Restricts the walk to objects with at most this many directories on the way from the start, which counts if it is one: with 0
    /// to the start, with 1 to the start and what is directly in it.
    #[must_use]
    pub fn with_depth(self, depth_max: usize) -> Self {
        Self { depth_max, ..self }
    }

    /// Opens a directory with this name in the innermost one, which it becomes.
    fn enter(&mut self, vnode: VnodeRef, name: &[u8]) -> Result<(), WalkError> {
        let path = self.path_of(name);
        match vnode.open_directory(&self.caller) {
            Ok(open) => {
                let outer_path = std::mem::replace(&mut self.path, path).len();
                self.levels.push(Level { vnode, open, cookie: Cookie::START, names: VecDeque::new(), outer_path });
                Ok(())
            }
            Err(errno) => Err(WalkError { path, errno }),
        }
    }

    fn leave(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.path.truncate(level.outer_path);
        }
    }

    /// Looks up an entry of the innermost directory.
    fn visit(&mut self, directory: &VnodeRef, name: &NameBuf) -> Result<WalkEntry, WalkError> {
        let path = self.path_of(name.as_bytes());
        match directory.lookup(&self.caller, name.as_name()) {
            Ok(entry) => {
                if entry.attributes.is_directory() && self.levels.len() < self.depth_max {
                    self.entering = Some((VnodeRef::clone(&entry.vnode), name.as_bytes().to_vec()));
                }
                Ok(WalkEntry { path, vnode: entry.vnode, attributes: entry.attributes })
            }
            Err(errno) => Err(WalkError { path, errno }),
        }
    }

    fn visit_start(&mut self, start: VnodeRef) -> Result<WalkEntry, WalkError> {
        let path = self.path.clone();
        match start.getattr(&self.caller) {
            Ok(attributes) => {
                if attributes.is_directory() && self.depth_max > 0 {
                    self.entering = Some((VnodeRef::clone(&start), Vec::new()));
                }
                Ok(WalkEntry { path, vnode: start, attributes })
            }
            Err(errno) => Err(WalkError { path, errno }),
        }
    }

    fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let separator: &[u8] = if self.path.is_empty() || name.is_empty() { b"" } else { b"/" };
        [&self.path, separator, name].concat()
    }
}

impl Level {
    /// Reads more entries; none if there are no more.
    fn read(&mut self, caller: &Caller) -> vnode::Result<()> {
        let Self { cookie, names, .. } = self;
        let start = *cookie;
        self.open.read(caller, start, &mut |entry| {
            if names.len() == BATCH {
                return ControlFlow::Break(());
            }
            names.push_back(entry.name.to_owned());
            *cookie = entry.cookie;
            ControlFlow::Continue(())
        })
    }
}

impl Iterator for Walk {
    type Item = Result<WalkEntry, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(start) = self.start.take() {
            return Some(self.visit_start(start));
        }
        if let Some((vnode, name)) = self.entering.take()
            && let Err(error) = self.enter(vnode, &name)
        {
            return Some(Err(error));
        }
        loop {
            let level = self.levels.last_mut()?;
            if let Some(name) = level.names.pop_front() {
                let directory = VnodeRef::clone(&level.vnode);
                return Some(self.visit(&directory, &name));
            }
            match level.read(&self.caller) {
                Ok(()) if level.names.is_empty() => self.leave(),
                Ok(()) => {}
                Err(errno) => {
                    let path = self.path.clone();
                    self.leave();
                    return Some(Err(WalkError { path, errno }));
                }
            }
        }
    }
}
