//! Walks: a directory and everything below it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use vnode::{Attributes, Errno, NameBuf, VnodeRef};

use crate::error::Error;
use crate::tree::{CallerTree, ResolvedPath};

/// An object that a walk came to.
#[derive(Clone)]
pub struct WalkEntry {
    /// Path from the root of the stack.
    pub path: PathBuf,
    /// The object.
    pub vnode: VnodeRef,
    /// Its attributes.
    pub attributes: Attributes,
}

/// The objects below a directory, each directory before what is in it, ordered by name. Symlinks are not followed. An object that
/// is removed during the walk is left out; what cannot be read is an error, and the walk continues after it.
pub struct Walk {
    tree: CallerTree,
    /// What is still to be visited, last first.
    pending: Vec<Pending>,
}

/// A step that a walk has still to take.
enum Pending {
    /// The object in which the walk begins.
    Start { path: PathBuf, vnode: VnodeRef },
    /// An entry of a directory.
    Entry { directory: VnodeRef, directory_path: PathBuf, name: NameBuf },
    /// An error to report.
    Error(Error),
}

impl Walk {
    pub(crate) fn new(tree: CallerTree, start: &ResolvedPath) -> Walk {
        let start = Pending::Start { path: path(start.path()), vnode: start.vnode().clone() };
        Walk { tree, pending: vec![start] }
    }

    /// Returns an object with its attributes.
    fn object(&self, step: Pending) -> Result<Option<WalkEntry>, Error> {
        match step {
            Pending::Start { path, vnode } => match vnode.getattr(&self.tree.caller) {
                Ok(attributes) => Ok(Some(WalkEntry { path, vnode, attributes })),
                Err(errno) => Err(Error::Object { path, errno }),
            },
            Pending::Entry { directory, directory_path, name } => {
                let path = directory_path.join(OsString::from_vec(name.as_bytes().to_vec()));
                let entry = directory.lookup(&self.tree.caller, name.as_name()).and_then(|entry| {
                    let is_provisional = entry.attributes.is_provisional;
                    let attributes =
                        if is_provisional { entry.vnode.getattr(&self.tree.caller)? } else { entry.attributes };
                    Ok((entry.vnode, attributes))
                });
                match entry {
                    Ok((vnode, attributes)) => Ok(Some(WalkEntry { path, vnode, attributes })),
                    Err(Errno::ENOENT | Errno::ESTALE) => Ok(None),
                    Err(errno) => Err(Error::Object { path, errno }),
                }
            }
            Pending::Error(error) => Err(error),
        }
    }

    /// Adds the entries of a directory to what is to be visited.
    fn enter(&mut self, directory: &WalkEntry) {
        match self.tree.entries(&directory.vnode) {
            Ok(entries) => self.pending.extend(entries.into_iter().rev().map(|entry| Pending::Entry {
                directory: directory.vnode.clone(),
                directory_path: directory.path.clone(),
                name: entry.name,
            })),
            Err(errno) => self.pending.push(Pending::Error(Error::Object { path: directory.path.clone(), errno })),
        }
    }
}

impl Iterator for Walk {
    type Item = Result<WalkEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let step = self.pending.pop()?;
            match self.object(step) {
                Ok(Some(entry)) => {
                    if entry.attributes.is_directory() {
                        self.enter(&entry);
                    }
                    return Some(Ok(entry));
                }
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Returns a path of the stack in the form that programs use.
pub(crate) fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}
