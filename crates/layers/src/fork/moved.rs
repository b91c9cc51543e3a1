//! Directories that a fork has moved, with their present and former paths, found by their redirects.

use vnode::{Entry, Errno, Name, NameBuf, Result, VnodeRef};

use super::changes::{ChangedObject, DirectoryChanges, LowerPart};
use super::outcome::{AtPath, CommitStep, is_directory};
use crate::union::branch::objects;
use crate::union::lookup::shared_copies;
use crate::union::tree_path::TreePath;

/// A directory that the fork has moved.
pub(crate) struct MovedDirectory {
    /// Its path in the fork, by the names in branches.
    pub(crate) path: Vec<u8>,
    pub(crate) name: NameBuf,
    /// Its parent in the branch of changes.
    pub(crate) parent: Option<VnodeRef>,
    /// Its instance in the branch of changes.
    pub(crate) upper: VnodeRef,
    /// Its path in the file system when the fork began.
    pub(crate) former_path: Vec<u8>,
}

/// Location at which an object was found.
pub(crate) struct LocatedEntry {
    pub(crate) directory: VnodeRef,
    pub(crate) name: NameBuf,
    pub(crate) entry: Entry,
}

impl MovedDirectory {
    /// This directory, with its lower part at that path.
    pub(crate) fn of(object: &ChangedObject, rest: &[u8]) -> Self {
        let (path, name, upper) = (object.path.slashed(), object.name.clone(), object.entry.vnode.clone());
        Self { path, name, parent: None, upper, former_path: rest.to_vec() }
    }

    /// Names of its ancestors.
    pub(crate) fn above(&self) -> impl Iterator<Item = Result<NameBuf>> {
        let names = self.path[..self.path.len() - self.name.as_bytes().len()].split(|&byte| byte == b'/');
        names.filter(|name| !name.is_empty()).map(NameBuf::new)
    }

    /// Its name while in transit.
    pub(crate) fn key(&self) -> NameBuf {
        shared_copies::handle_name(&self.upper.handle())
    }
}

/// Depth of a path below the root.
pub(crate) fn depth(path: &[u8]) -> usize {
    path.iter().filter(|&&byte| byte == b'/').count()
}

/// All directories that the fork has moved.
pub(crate) fn find_moved(root: &VnodeRef) -> CommitStep<Vec<MovedDirectory>> {
    let mut moved = Vec::new();
    let mut open = vec![(TreePath::root(), root.clone())];
    while let Some((path, directory)) = open.pop() {
        for object in DirectoryChanges::of(&directory, &path).at(&path)?.objects {
            if let LowerPart::Elsewhere(rest) = &object.lower_part {
                moved.push(MovedDirectory { parent: Some(directory.clone()), ..MovedDirectory::of(&object, rest) });
            }
            if is_directory(&object.entry) {
                open.push((object.path, object.entry.vnode));
            }
        }
    }
    Ok(moved)
}

/// The object at a path of names in branches, if there is one.
pub(crate) fn locate(root: &VnodeRef, path: &[u8]) -> Result<Option<LocatedEntry>> {
    let mut found: Option<LocatedEntry> = None;
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        let directory = found.map_or_else(|| root.clone(), |place| place.entry.vnode);
        let name = NameBuf::new(name.to_vec())?;
        match objects::find(&directory, name.as_name()) {
            Ok(Some(entry)) => found = Some(LocatedEntry { directory, name, entry }),
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
