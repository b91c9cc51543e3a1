//! Attributes by which mergerfs reports where a file is, for scripts that read them.

use std::sync::Arc;

use vnode::{Errno, Result, Vnode};

use super::branch_objects::{BranchObject, ObjectRole};
use crate::union::state::Node;

/// Prefix of their names.
const PREFIX: &[u8] = b"user.mergerfs.";

impl Node {
    /// Returns whether the union answers for the attribute, which cannot be changed.
    pub(crate) fn is_mergerfs_attribute(&self, name: &[u8]) -> bool {
        self.union.settings.has_mergerfs_attributes && name.starts_with(PREFIX)
    }

    /// Value of one of these attributes; `None` for any other name, or if the union does not have them.
    pub(crate) fn mergerfs_attribute(self: &Arc<Self>, name: &[u8]) -> Option<Result<Vec<u8>>> {
        if !self.is_mergerfs_attribute(name) {
            return None;
        }
        let value = match name.strip_prefix(PREFIX)? {
            b"basepath" => self.leftmost().member.base.label.clone().into_bytes(),
            b"relpath" => return Some(self.path().map(|path| [b"/", &path[..]].concat())),
            b"fullpath" => {
                return Some(self.full_paths().and_then(|paths| paths.into_iter().next().ok_or(Errno::ENODATA)));
            }
            b"allpaths" => return Some(self.full_paths().map(|paths| paths.join(&0))),
            _ => return Some(Err(Errno::ENODATA)),
        };
        Some(Ok(value))
    }

    /// Paths of the object in the branches, that of the visible one first.
    fn full_paths(self: &Arc<Self>) -> Result<Vec<Vec<u8>>> {
        let mut objects = self.branch_objects()?;
        objects.retain(|object| object.role != ObjectRole::Whiteout);
        objects.sort_by_key(|object| object.role != ObjectRole::Visible);
        Ok(objects.iter().map(full_path).collect())
    }
}

/// Path of an object, below the label of its branch.
pub(crate) fn full_path(object: &BranchObject) -> Vec<u8> {
    let mut path = object.member.base.label.clone().into_bytes();
    if !object.path.is_empty() {
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(&object.path);
    }
    path
}
