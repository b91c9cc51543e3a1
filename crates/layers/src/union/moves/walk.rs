//! Walk over what a branch has, with the objects of the union that users see at each path.

use std::ops::ControlFlow;
use std::sync::Arc;

use vnode::{Errno, FileKind, NameBuf, Result, VnodeRef};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::objects;
use crate::union::branch::whiteout::{self, EntryMeaning};
use crate::union::state::{Node, Union};
use crate::union::tree_path::TreePath;

/// What a walk meets in a branch.
pub(crate) enum WalkedObject {
    /// Anything but a directory, as users see it.
    File(Arc<Node>),
    /// A directory, after everything in it.
    Directory(Arc<Node>),
    /// An object that users do not see.
    Hidden,
    /// A whiteout, or a mark of a directory.
    Mark,
    /// An object that cannot be examined.
    Unreadable(Errno),
}

/// A directory that is still to be walked, or, if it has been, to be reported.
struct PendingDirectory {
    path: TreePath,
    vnode: VnodeRef,
    is_walked: bool,
}

impl Union {
    /// Visits everything in a branch, each directory after what is in it. Each object counts towards the
    /// [progress](vnode::progress) of this thread.
    pub(crate) fn walk_branch(
        self: &Arc<Self>,
        member: &Arc<BranchMember>,
        mut visit: impl FnMut(&TreePath, WalkedObject) -> ControlFlow<()>,
    ) {
        let root = PendingDirectory { path: TreePath::root(), vnode: member.root.clone(), is_walked: false };
        // Iterative: a tree may be deeper than a thread's stack.
        let mut pending = vec![root];
        while let Some(directory) = pending.pop() {
            if directory.is_walked {
                let object = self.walked_object(member, &directory.path, &directory.vnode);
                if visit(&directory.path, object).is_break() {
                    return;
                }
                continue;
            }
            let entries = match objects::entries(&directory.vnode) {
                Ok(entries) => entries,
                Err(error) if visit(&directory.path, WalkedObject::Unreadable(error)).is_break() => return,
                Err(_) => continue,
            };
            let (vnode, path) = (directory.vnode.clone(), directory.path.clone());
            let is_root = path.is_root();
            pending.push(PendingDirectory { is_walked: true, ..directory });
            for (name, _) in entries {
                if is_root && name.as_bytes() == whiteout::STATE_DIRECTORY {
                    continue;
                }
                vnode::progress::object_done();
                let (path, object) = match self.walk_entry(member, (&path, &vnode), &name) {
                    Ok((path, WalkedEntry::Object(object))) => (path, object),
                    Ok((path, WalkedEntry::Directory(vnode))) => {
                        pending.push(PendingDirectory { path, vnode, is_walked: false });
                        continue;
                    }
                    // It has gone meanwhile.
                    Err(Errno::ENOENT) => continue,
                    Err(error) => (path.join(name.as_name()), WalkedObject::Unreadable(error)),
                };
                if visit(&path, object).is_break() {
                    return;
                }
            }
        }
    }

    fn walk_entry(
        self: &Arc<Self>,
        member: &Arc<BranchMember>,
        (above, directory): (&TreePath, &VnodeRef),
        name: &NameBuf,
    ) -> Result<(TreePath, WalkedEntry)> {
        let EntryMeaning::Object(shown) = whiteout::meaning(name.as_bytes()) else {
            return Ok((above.join(name.as_name()), WalkedEntry::Object(WalkedObject::Mark)));
        };
        let path = above.join(vnode::Name::new(&shown)?);
        let found = objects::find(directory, name.as_name())?.ok_or(Errno::ENOENT)?;
        if whiteout::is_whiteout_device(&found)? {
            return Ok((path, WalkedEntry::Object(WalkedObject::Mark)));
        }
        if found.attributes.kind == FileKind::Directory {
            return Ok((path, WalkedEntry::Directory(found.vnode)));
        }
        let object = self.walked_object(member, &path, &found.vnode);
        Ok((path, WalkedEntry::Object(object)))
    }

    /// The object that users see at a path, if it is this one of the branch.
    fn walked_object(self: &Arc<Self>, member: &Arc<BranchMember>, path: &TreePath, object: &VnodeRef) -> WalkedObject {
        let node = {
            let _guard = self.operation_guard();
            self.node_at_path(&path.to_bytes())
        };
        match node {
            Ok(node) if node.instance_in(member).is_some_and(|own| own.handle() == object.handle()) => {
                match node.kind {
                    FileKind::Directory => WalkedObject::Directory(node),
                    _ => WalkedObject::File(node),
                }
            }
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR) => WalkedObject::Hidden,
            Err(error) => WalkedObject::Unreadable(error),
        }
    }
}

/// What an entry of a directory is.
enum WalkedEntry {
    Object(WalkedObject),
    Directory(VnodeRef),
}
