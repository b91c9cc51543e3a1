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
    /// The root, before it is visited.
    root: Option<VnodeRef>,
    /// The directory that was visited last, to be entered next, with its name.
    entering: Option<(VnodeRef, Vec<u8>)>,
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
    /// Returns the walk over a tree.
    pub(crate) fn new(root: VnodeRef) -> Self {
        let (levels, path) = (Vec::new(), Vec::new());
        Self { caller: Caller::server(), root: Some(root), entering: None, levels, path }
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
                if entry.attributes.is_directory() {
                    self.entering = Some((VnodeRef::clone(&entry.vnode), name.as_bytes().to_vec()));
                }
                Ok(WalkEntry { path, vnode: entry.vnode, attributes: entry.attributes })
            }
            Err(errno) => Err(WalkError { path, errno }),
        }
    }

    fn visit_root(&mut self, root: VnodeRef) -> Result<WalkEntry, WalkError> {
        match root.getattr(&self.caller) {
            Ok(attributes) => {
                self.entering = Some((VnodeRef::clone(&root), Vec::new()));
                Ok(WalkEntry { path: Vec::new(), vnode: root, attributes })
            }
            Err(errno) => Err(WalkError { path: Vec::new(), errno }),
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
        if let Some(root) = self.root.take() {
            return Some(self.visit_root(root));
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
