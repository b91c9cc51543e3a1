//! Objects in the branches that a name of the union stands for: the visible one, those merged with it or hidden by it, and
//! whiteouts.

use std::sync::Arc;

use vnode::{Errno, Name, Result, VnodeRef};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::objects;
use crate::union::branch::whiteout;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation};

/// An object in a branch.
pub(crate) struct BranchObject {
    pub(crate) member: Arc<BranchMember>,
    /// Path from the root of the branch, without a leading slash.
    pub(crate) path: Vec<u8>,
    pub(crate) role: ObjectRole,
}

/// What an object of a branch is to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectRole {
    /// The object that users see.
    Visible,
    /// A directory that is merged with the visible one.
    Merged,
    /// An object that another one, or a whiteout, hides.
    Hidden,
    /// A whiteout.
    Whiteout,
}

impl ObjectRole {
    /// Name of the role, for people and programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Visible => "visible",
            Self::Merged => "merged",
            Self::Hidden => "hidden",
            Self::Whiteout => "whiteout",
        }
    }
}

impl Node {
    /// The objects that this one consists of or hides, leftmost first.
    ///
    /// # Errors
    /// `ESTALE` for an object without a known name.
    pub(crate) fn branch_objects(self: &Arc<Self>) -> Result<Vec<BranchObject>> {
        if !self.is_root() {
            self.find_location()?;
            let NodeLocation::At(above) = self.location() else { return Err(Errno::ESTALE) };
            return above.directory.branch_objects_at(above.stored.as_name(), &self.instances());
        }
        let root = |(index, instance): (usize, &Instance)| BranchObject {
            member: Arc::clone(&instance.member),
            path: Vec::new(),
            role: role_of(index),
        };
        Ok(self.instances().iter().enumerate().map(root).collect())
    }

    /// The objects of a name in this directory, leftmost first, of which users see those that are given.
    pub(crate) fn branch_objects_at(&self, stored: Name<'_>, visible: &[Instance]) -> Result<Vec<BranchObject>> {
        let mut found = Vec::new();
        for directory in self.instances().iter() {
            let member = &directory.member;
            let entry = objects::find(&directory.vnode, stored).map_err(|error| member.reported_error(error))?;
            let is_device = entry.as_ref().map_or(Ok(false), whiteout::is_whiteout_device)?;
            let add = |found: &mut Vec<BranchObject>, name: Name<'_>, role| -> Result<()> {
                found.push(BranchObject {
                    member: Arc::clone(member),
                    path: path_of(member, &directory.vnode, name)?,
                    role,
                });
                Ok(())
            };
            if let Some(entry) = entry.filter(|_| !is_device) {
                let index = visible.iter().position(|instance| instance.is_object(member, &entry.vnode));
                add(&mut found, stored, index.map_or(ObjectRole::Hidden, role_of))?;
            }
            if is_device {
                add(&mut found, stored, ObjectRole::Whiteout)?;
            } else if whiteout::has_whiteout_file(&directory.vnode, stored)? {
                add(&mut found, whiteout::whiteout_name(stored)?.as_name(), ObjectRole::Whiteout)?;
            }
        }
        // Parts of a directory that was moved have other names.
        let is_elsewhere =
            |instance: &&Instance| !found.iter().any(|object| Arc::ptr_eq(&object.member, &instance.member));
        let mut elsewhere = Vec::new();
        for (index, instance) in visible.iter().enumerate().filter(|(_, instance)| is_elsewhere(instance)) {
            let path = BranchMember::path_in_layer(&instance.member.base, &instance.vnode)?;
            elsewhere.push(BranchObject { member: Arc::clone(&instance.member), path, role: role_of(index) });
        }
        found.extend(elsewhere);
        let position = |object: &BranchObject| self.union.branches.position(&object.member);
        found.sort_by_key(position);
        Ok(found)
    }
}

/// Role of one of the instances of an object.
fn role_of(index: usize) -> ObjectRole {
    if index == 0 { ObjectRole::Visible } else { ObjectRole::Merged }
}

/// Path of a name in a directory of a branch, from the root of the layer that has it.
fn path_of(member: &BranchMember, directory: &VnodeRef, name: Name<'_>) -> Result<Vec<u8>> {
    let mut path = BranchMember::path_in_layer(&member.base, directory)?;
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
    Ok(path)
}
