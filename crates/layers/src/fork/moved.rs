//! Directories that a fork has moved, with their present and former paths, found by their redirects.

use vnode::{Entry, Errno, Name, NameBuf, Result, VnodeRef};

use super::changes::{Below, Changes, Object};
use super::outcome::{AtPath, Step, is_directory};
use crate::union::branch::{links, work};
use crate::union::tree_path::TreePath;

/// A directory that the fork has moved.
pub(crate) struct Moved {
    /// Its path in the fork, by the names in branches.
    pub(crate) path: Vec<u8>,
    pub(crate) name: NameBuf,
    /// Its parent in the branch of changes.
    pub(crate) parent: Option<VnodeRef>,
    /// Its instance in the branch of changes.
    pub(crate) upper: VnodeRef,
    /// Its path in the file system when the fork began.
    pub(crate) rest: Vec<u8>,
}

/// Location at which an object was found.
pub(crate) struct Place {
    pub(crate) directory: VnodeRef,
    pub(crate) name: NameBuf,
    pub(crate) entry: Entry,
}

impl Moved {
    /// This directory, with its lower part at that path.
    pub(crate) fn of(object: &Object, rest: &[u8]) -> Self {
        let (path, name, upper) = (object.path.slashed(), object.name.clone(), object.entry.vnode.clone());
        Self { path, name, parent: None, upper, rest: rest.to_vec() }
    }

    /// Names of its ancestors.
    pub(crate) fn above(&self) -> impl Iterator<Item = Result<NameBuf>> {
        let names = self.path[..self.path.len() - self.name.as_bytes().len()].split(|&byte| byte == b'/');
        names.filter(|name| !name.is_empty()).map(NameBuf::new)
    }

    /// Its name while in transit.
    pub(crate) fn key(&self) -> NameBuf {
        links::name_of_handle(&self.upper.handle())
    }
}

/// Depth of a path below the root.
pub(crate) fn depth(path: &[u8]) -> usize {
    path.iter().filter(|&&byte| byte == b'/').count()
}

/// All directories that the fork has moved.
pub(crate) fn find_moved(root: &VnodeRef) -> Step<Vec<Moved>> {
    let mut moved = Vec::new();
    let mut open = vec![(TreePath::root(), root.clone())];
    while let Some((path, directory)) = open.pop() {
        for object in Changes::of(&directory, &path).at(&path)?.objects {
            if let Below::Elsewhere(rest) = &object.below {
                moved.push(Moved { parent: Some(directory.clone()), ..Moved::of(&object, rest) });
            }
            if is_directory(&object.entry) {
                open.push((object.path, object.entry.vnode));
            }
        }
    }
    Ok(moved)
}

/// The object at a path of names in branches, if there is one.
pub(crate) fn look_at(root: &VnodeRef, path: &[u8]) -> Result<Option<Place>> {
    let mut found: Option<Place> = None;
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        let directory = found.map_or_else(|| root.clone(), |place| place.entry.vnode);
        let name = NameBuf::new(name.to_vec())?;
        match work::find(&directory, name.as_name()) {
            Ok(Some(entry)) => found = Some(Place { directory, name, entry }),
            Ok(None) | Err(Errno::ENOTDIR) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The path as the start of a walk.
pub(crate) fn tree_path(path: &[u8]) -> Result<TreePath> {
    let mut names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    names.try_fold(TreePath::root(), |path, name| Ok(path.join(Name::new(name)?)))
}
