//! Consolidate: the files of each directory move to one branch, so that what belongs together is on one disk.

use std::sync::Arc;

use vnode::{Caller, ControlError, FileKind, Result, profile};

use super::drain::reason;
use super::report::MoveReport;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::objects;
use crate::union::control_arguments::refused;
use crate::union::operations::space::{free, spaces_of};
use crate::union::state::{Node, Union};
use crate::union::tree_path::TreePath;

/// A branch and what it has of a directory.
struct BranchShare {
    member: Arc<BranchMember>,
    files: Vec<(TreePath, Arc<Node>, u64)>,
    bytes: u64,
}

impl Union {
    /// Moves the files of each directory from a path on to that of the branches which has most of their bytes, and room for the
    /// rest. Returns a line for each object that stays, and the totals.
    ///
    /// # Errors
    /// `BadArgument` if there is no directory of that path.
    pub(crate) fn consolidate(self: &Arc<Self>, path: &str) -> std::result::Result<String, ControlError> {
        let mut top = TreePath::root();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let name = vnode::Name::new(name.as_bytes());
            top = top.join(name.map_err(|error| refused(&format!("/{path}: {error}; give the path of a directory")))?);
        }
        let is_directory = self.node_of(&top).is_ok_and(|node| node.kind == FileKind::Directory);
        if !is_directory {
            return Err(refused(&format!("/{path} is not a directory; give the path of one")));
        }
        let mut report = MoveReport::default();
        // Iterative: a tree may be deeper than a thread's stack.
        let mut pending = vec![top];
        while let Some(path) = pending.pop() {
            match self.shares_of(&path, &mut pending) {
                Ok(shares) => self.consolidate_files(&path, &shares, &mut report),
                Err(error) => report.add_stay(&path, &reason(error)),
            }
        }
        Ok(report.to_text())
    }

    fn node_of(self: &Arc<Self>, path: &TreePath) -> Result<Arc<Node>> {
        let _guard = self.operation_guard();
        self.node_at_path(&path.to_bytes())
    }

    /// Returns what each branch has of the files in a directory, and adds the directories in it to `pending`.
    fn shares_of(self: &Arc<Self>, path: &TreePath, pending: &mut Vec<TreePath>) -> Result<Vec<BranchShare>> {
        let directory = profile::vnode(self.node_of(path)?);
        let mut shares: Vec<BranchShare> = Vec::new();
        for (name, _) in objects::entries(&directory)? {
            vnode::progress::object_done();
            let path = path.join(name.as_name());
            // What has gone meanwhile belongs nowhere.
            let Ok(node) = self.node_of(&path) else { continue };
            if node.kind == FileKind::Directory {
                pending.push(path);
                continue;
            }
            let leftmost = node.leftmost();
            let attributes = leftmost.vnode.getattr(&Caller::server())?;
            let bytes = attributes.size.min(attributes.blocks.saturating_mul(512));
            let at = shares.iter().position(|share| Arc::ptr_eq(&share.member, &leftmost.member));
            let at = at.unwrap_or_else(|| {
                shares.push(BranchShare { member: leftmost.member, files: Vec::new(), bytes: 0 });
                shares.len() - 1
            });
            shares[at].bytes += bytes;
            shares[at].files.push((path, node, bytes));
        }
        Ok(shares)
    }

    fn consolidate_files(self: &Arc<Self>, path: &TreePath, shares: &[BranchShare], report: &mut MoveReport) {
        // What is in a branch that is only read stays there, as users expect.
        let movable = |share: &&BranchShare| self.branches.may_change(&share.member);
        let shares: Vec<&BranchShare> = shares.iter().filter(movable).collect();
        if shares.len() < 2 {
            return;
        }
        let Some(target) = self.target_of(&shares) else {
            report.add_stay(path, "no branch that has a part of its files has room for all of them");
            return;
        };
        for share in shares.iter().filter(|share| !Arc::ptr_eq(&share.member, target)) {
            for (path, node, bytes) in &share.files {
                if share.member.base.has_snapshots() {
                    report.add_stay(path, "its branch has snapshots; drop them with plyfs snapshot merge");
                    continue;
                }
                match node.run_change(|node| node.relocate(&Caller::server(), target)) {
                    Ok(true) => report.add_moved(*bytes),
                    Ok(false) => {}
                    Err(error) => report.add_stay(path, &reason(error)),
                }
            }
        }
    }

    /// Returns the branch that has most bytes of those in which objects may be created and which have room for the others'.
    fn target_of<'a>(&self, shares: &[&'a BranchShare]) -> Option<&'a Arc<BranchMember>> {
        let bytes: u64 = shares.iter().map(|share| share.bytes).sum();
        let has_room = |share: &&BranchShare| {
            let needed = (bytes - share.bytes).saturating_add(self.minimum_free(&share.member));
            let space = spaces_of(std::slice::from_ref(&share.member)).pop().flatten();
            // What reports no space, such as a file system in memory without a limit, has room.
            self.branches.may_create(&share.member) && space.is_none_or(|space| free(&space) >= needed)
        };
        // Of equal ones, the first.
        let largest = shares.iter().filter(|share| has_room(share)).rev().max_by_key(|share| share.bytes);
        largest.map(|share| &share.member)
    }
}
