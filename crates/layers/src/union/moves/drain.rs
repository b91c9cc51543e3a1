//! Drain: everything that users see in a branch moves to other branches, so that the branch can be removed.

use std::ops::ControlFlow;
use std::sync::Arc;

use vnode::{Caller, ControlError, Errno, Result};

use super::report::MoveReport;
use super::walk::WalkedObject;
use crate::BranchMode;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::whiteout;
use crate::union::control_arguments::refused;
use crate::union::copy_up::replace_attributes;
use crate::union::operations::space::{free, spaces_of};
use crate::union::state::{Node, Union};
use crate::union::tree_path::TreePath;

/// Maximum number of walks over a branch that is drained.
const MAX_WALKS: usize = 16;

impl Union {
    /// Moves everything off a branch, in which nothing is created from now on. Returns a line for each object that stays, and the
    /// totals.
    ///
    /// # Errors
    /// `BadArgument` if there is no such branch; `Refused` if it may not be changed, has snapshots, or there is no other to which
    /// objects could move.
    pub(crate) fn drain(self: &Arc<Self>, which: &str) -> std::result::Result<String, ControlError> {
        let member = self.movable_branch(which)?;
        if self.targets_for(&member).is_empty() {
            return Err(refused(
                "there is no other rw branch to which objects could move; add one with plyfs union add",
            ));
        }
        if self.branches.may_create(&member) {
            self.set_mode(which, BranchMode::NoCreate)?;
        }
        let mut report = MoveReport::default();
        // What is renamed meanwhile can escape a walk.
        for _ in 0..MAX_WALKS {
            let before = report.begin_walk();
            self.walk_branch(&member, |path, object| {
                self.drain_object(&member, path, object, &mut report);
                ControlFlow::Continue(())
            });
            if report.moved_objects() == before {
                break;
            }
        }
        Ok(report.to_text())
    }

    /// The branch from which objects can move.
    pub(crate) fn movable_branch(&self, which: &str) -> std::result::Result<Arc<BranchMember>, ControlError> {
        let member = self.branch_named(which)?;
        if !self.branches.may_change(&member) {
            return Err(refused("the branch may not be changed; make it rw or nc with plyfs union mode"));
        }
        if member.base.has_snapshots() {
            return Err(refused(
                "the branch has snapshots, which would keep what moves; drop them with plyfs snapshot merge",
            ));
        }
        Ok(member)
    }

    /// The other branches in which objects may be created, leftmost first.
    fn targets_for(&self, source: &Arc<BranchMember>) -> Vec<Arc<BranchMember>> {
        let slots = self.branches.slots();
        let others = slots.iter().map(|slot| &slot.member).filter(|member| !Arc::ptr_eq(&member.base, &source.base));
        others.filter(|member| self.branches.may_create(member)).cloned().collect()
    }

    /// The other branches with room for this number of bytes and their minimum, that with most free space first.
    pub(crate) fn targets_with_room(&self, source: &Arc<BranchMember>, bytes: u64) -> Vec<Arc<BranchMember>> {
        let members = self.targets_for(source);
        let spaces = spaces_of(&members).into_iter().map(|space| space.as_ref().map_or(0, free));
        let mut with_room: Vec<(u64, Arc<BranchMember>)> = spaces
            .zip(members)
            .filter(|(free, member)| *free >= bytes.saturating_add(self.minimum_free(member)))
            .collect();
        with_room.sort_by_key(|(free, _)| std::cmp::Reverse(*free));
        with_room.into_iter().map(|(_, member)| member).collect()
    }

    fn drain_object(
        self: &Arc<Self>,
        member: &Arc<BranchMember>,
        path: &TreePath,
        object: WalkedObject,
        report: &mut MoveReport,
    ) {
        match object {
            WalkedObject::File(node) => match self.move_off(member, &node) {
                Ok(bytes) => report.add_moved(bytes),
                // It has been removed or moved meanwhile.
                Err(Errno::ENOENT | Errno::ESTALE) => {}
                Err(error) => report.add_stay(path, &reason(error)),
            },
            WalkedObject::Directory(node) => {
                if let Err(error) = self.preserve_directory(member, &node) {
                    report.add_stay(path, &reason(error));
                }
            }
            WalkedObject::Hidden => report.add_stay(path, "hidden by a higher branch; remove or rename one of them"),
            WalkedObject::Mark => report.add_stay(path, "a whiteout or mark; it may hide something in lower branches"),
            WalkedObject::Unreadable(error) => report.add_stay(path, &format!("cannot be read: {error}")),
        }
    }

    /// Moves an object to the best of the other branches that can have it; returns the number of bytes that it takes.
    fn move_off(self: &Arc<Self>, member: &Arc<BranchMember>, node: &Arc<Node>) -> Result<u64> {
        let attributes = node.leftmost().vnode.getattr(&Caller::server())?;
        let bytes = attributes.size.min(attributes.blocks.saturating_mul(512));
        let targets = self.targets_with_room(member, bytes);
        let mut outcome = Err(Errno::ENOSPC);
        for target in &targets {
            outcome = node.run_change(|node| match Arc::ptr_eq(&node.leftmost().member, member) {
                true => node.relocate(&Caller::server(), target),
                false => Ok(true),
            });
            if !matches!(outcome, Err(Errno::EXDEV | Errno::EEXIST | Errno::ENOSPC | Errno::EDQUOT | Errno::EAGAIN)) {
                break;
            }
        }
        outcome.map(|_| bytes)
    }

    /// Gives a directory of a branch an instance in another one, with the attributes that users see.
    fn preserve_directory(self: &Arc<Self>, member: &Arc<BranchMember>, node: &Arc<Node>) -> Result<()> {
        let targets = self.targets_with_room(member, 0);
        node.run_change(|node| {
            let Some(own) = node.instance_in(member) else { return Ok(()) };
            let marks = whiteout::marks(&own)?;
            if marks.is_opaque || marks.redirect.is_some() {
                return Err(Errno::ENOTEMPTY);
            }
            let instances = node.instances();
            let others: Vec<_> = instances.iter().filter(|instance| !Arc::ptr_eq(&instance.member, member)).collect();
            let create_above = |limit: Option<usize>| {
                let is_above = |target: &&Arc<BranchMember>| limit.is_none() || self.branches.position(target) < limit;
                let created =
                    |target: &Arc<BranchMember>| node.ensure_directory_in(&Caller::server(), target).map(drop);
                targets.iter().filter(is_above).map(created).find(Result::is_ok).unwrap_or(Err(Errno::EXDEV))
            };
            let Some(next) = others.first() else { return create_above(None) };
            if !Arc::ptr_eq(&instances[0].member, member) {
                return Ok(());
            }
            if !self.branches.may_change(&next.member) {
                return create_above(self.branches.position(&next.member));
            }
            let lost = replace_attributes(&own, &next.vnode)?;
            next.member.record_losses(&next.vnode, lost);
            Ok(())
        })
    }
}

/// Explanation of why an object stays.
pub(crate) fn reason(error: Errno) -> String {
    let reason = match error {
        Errno::EXDEV => "in use by the kernel, has several names, or would be hidden in every other branch",
        Errno::EEXIST => "every other branch has something else of that name, which is hidden",
        Errno::ENOSPC | Errno::EDQUOT => "no other branch has room for it",
        Errno::ENOTEMPTY => "the directory has a mark that says what it hides",
        Errno::EPERM | Errno::EACCES => "it cannot be copied with its owner and permissions",
        other => return format!("it cannot be copied: {other}"),
    };
    reason.to_owned()
}
