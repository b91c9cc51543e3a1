//! Changes to one directory in the branch of changes: the objects in it, and the names that are gone.

use std::collections::HashSet;

use vnode::progress::object_done;
use vnode::{Caller, Entry, Errno, NameBuf, Result, VnodeRef};

use super::outcome::is_directory;
use crate::union::branch::objects;
use crate::union::branch::whiteout::{self, EntryMeaning, STATE_DIRECTORY};
use crate::union::tree_path::TreePath;

/// Changes in a directory, by the names in branches.
pub(crate) struct DirectoryChanges {
    /// Objects that are there.
    pub(crate) objects: Vec<ChangedObject>,
    /// Names that are hidden and have no object.
    pub(crate) gone: Vec<NameBuf>,
}

/// An object in the branch of changes.
pub(crate) struct ChangedObject {
    pub(crate) name: NameBuf,
    /// Path from the root, by the names in branches.
    pub(crate) path: TreePath,
    pub(crate) entry: Entry,
    /// Of a directory, its lower part.
    pub(crate) lower_part: LowerPart,
}

/// Part of the file system that a directory of the fork shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LowerPart {
    /// The directory at the same path, unless nothing of the parent's is shown.
    Same,
    /// The directory at the same path.
    Own,
    /// Nothing.
    Nothing,
    /// The directory at this path: it has been moved in the fork.
    Elsewhere(Vec<u8>),
}

impl DirectoryChanges {
    /// The changes in a directory of the branch, which is at this path.
    ///
    /// # Errors
    /// `EXDEV` for a moved directory whose redirect is not a path from the root, as only overlayfs writes it.
    pub(crate) fn of(directory: &VnodeRef, path: &TreePath) -> Result<Self> {
        let server = Caller::server();
        let (mut found, mut hidden) = (Vec::new(), HashSet::new());
        for (name, _) in objects::entries(directory)? {
            object_done();
            match whiteout::meaning(name.as_bytes()) {
                _ if name.as_bytes() == STATE_DIRECTORY => {}
                EntryMeaning::Mark => {}
                EntryMeaning::Whiteout(_) => {
                    hidden.extend(whiteout::hidden_name(name.as_bytes()).map(vnode::Name::to_owned));
                }
                EntryMeaning::Object(_) => {
                    let entry = directory.lookup(&server, name.as_name())?;
                    if whiteout::is_whiteout_device(&entry)? {
                        hidden.insert(name);
                    } else {
                        found.push((name, entry));
                    }
                }
            }
        }
        let mut objects = Vec::with_capacity(found.len());
        for (name, entry) in found {
            let stands = hidden.remove(&name);
            let path = path.join(name.as_name());
            objects.push(ChangedObject { lower_part: LowerPart::of(&entry, &path, stands)?, name, path, entry });
        }
        Ok(Self { objects, gone: hidden.into_iter().collect() })
    }
}

impl LowerPart {
    fn of(entry: &Entry, path: &TreePath, has_whiteout: bool) -> Result<Self> {
        if !is_directory(entry) {
            return Ok(Self::Same);
        }
        Ok(match whiteout::redirect(&entry.vnode)? {
            Some(rest) if path.is(&rest) => Self::Own,
            Some(rest) if rest.starts_with(b"/") => Self::Elsewhere(rest),
            Some(_) => return Err(Errno::EXDEV),
            None if has_whiteout || whiteout::is_opaque(&entry.vnode)? => Self::Nothing,
            None => Self::Same,
        })
    }

    /// Returns whether nothing but the fork's own objects stays in the directory; `above`, whether that holds for its parent.
    pub(crate) fn hides(&self, above: bool) -> bool {
        match self {
            Self::Same => above,
            Self::Nothing => true,
            Self::Own | Self::Elsewhere(_) => false,
        }
    }
}

/// Path of the object of this name in a directory.
pub(crate) fn join(directory: &[u8], name: &NameBuf) -> Vec<u8> {
    [directory, b"/", name.as_bytes()].concat()
}

/// A path as users see it, without a leading slash.
pub(crate) fn visible_path(path: &[u8]) -> Vec<u8> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    let names = names.map(|name| match whiteout::meaning(name) {
        EntryMeaning::Object(name) | EntryMeaning::Whiteout(name) => name.into_owned(),
        EntryMeaning::Mark => name.to_vec(),
    });
    names.collect::<Vec<_>>().join(&b'/')
}
