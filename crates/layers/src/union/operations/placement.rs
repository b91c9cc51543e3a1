//! Placement: the branch that receives a new object, and the branches in which a directory can be so that users see it there.

use std::sync::Arc;

use vnode::{Caller, Cancellation, Errno, Name, Result, VnodeRef};

use super::space::{free, spaces_of};
use crate::union::branch::branches::BranchMember;
use crate::union::branch::objects;
use crate::union::branch::whiteout;
use crate::union::lookup::parallel::ParallelQueries;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation, ParentEntry};

/// Branches without space for a new object.
#[derive(Default)]
pub(crate) struct FullBranches {
    members: Vec<Arc<BranchMember>>,
    error: Option<Errno>,
}

impl FullBranches {
    /// Skips a branch because of an error.
    pub(crate) fn exclude(&mut self, member: Arc<BranchMember>, error: Errno) {
        self.members.push(member);
        self.error = Some(error);
    }

    fn has(&self, member: &Arc<BranchMember>) -> bool {
        self.members.iter().any(|full| Arc::ptr_eq(full, member))
    }
}

/// Returns whether the error says that a branch is full.
pub(crate) fn is_full(error: Errno) -> bool {
    matches!(error, Errno::ENOSPC | Errno::EDQUOT)
}

impl Node {
    /// The branch for a new object in this directory, no lower than `limit`, and the directory there. Branches that were found
    /// full are skipped.
    pub(crate) fn place_for_new(
        self: &Arc<Self>,
        caller: &Caller,
        limit: usize,
        full: &mut FullBranches,
    ) -> Result<(Arc<BranchMember>, VnodeRef)> {
        for member in self.candidates(limit)? {
            if full.has(&member) || !self.can_be_in(&member)? {
                continue;
            }
            match self.directory_for_change(caller, &member) {
                Err(error) if self.tries_next_branch(error) => full.exclude(member, error),
                directory => return Ok((member, directory?)),
            }
        }
        Err(full.error.unwrap_or(Errno::EROFS))
    }

    /// Returns whether the error says that another branch is to be tried.
    pub(crate) fn tries_next_branch(&self, error: Errno) -> bool {
        self.union.settings.moves_when_full && is_full(error)
    }

    /// Returns whether the file would move if its branch were full.
    pub(crate) fn may_move_when_full(&self) -> bool {
        self.union.settings.moves_when_full && !self.branches_when_full().is_empty()
    }

    /// Branches to which the file would move if its own were full, those on the left nearest first.
    fn branches_when_full(&self) -> Vec<Arc<BranchMember>> {
        let own = self.leftmost().member;
        let Some(position) = self.union.branches.position(&own) else { return Vec::new() };
        if self.union.settings.when_full_order.is_none() {
            let mut left = position.checked_sub(1).map(|limit| self.writable_branches(limit)).unwrap_or_default();
            left.reverse();
            return left;
        }
        let mut others = self.writable_branches(usize::MAX);
        others.retain(|member| !Arc::ptr_eq(member, &own));
        others
    }

    /// Moves a file from a full branch to the first of those with room for it and for the given number of additional bytes;
    /// returns whether that succeeded. Branches that have been `full` before are not tried again. The caller holds an operation
    /// guard.
    pub(crate) fn move_from_full(
        self: &Arc<Self>,
        caller: &Caller,
        bytes: u64,
        full: &mut Vec<Arc<BranchMember>>,
    ) -> bool {
        let Ok(attributes) = self.leftmost().vnode.getattr(&Caller::server()) else { return false };
        let wanted = attributes.blocks.saturating_mul(512).min(attributes.size).saturating_add(bytes);
        full.push(self.leftmost().member);
        let mut members = self.branches_when_full();
        members.retain(|member| !full.iter().any(|full| Arc::ptr_eq(full, member)));
        if let Some(order) = self.union.settings.when_full_order {
            members = self.in_order(members, order);
        }
        spaces_of(&members).into_iter().zip(&members).any(|(space, member)| {
            let wanted = wanted.saturating_add(self.union.minimum_free(member));
            let has_room = space.is_some_and(|space| free(&space) >= wanted);
            let original = self.leftmost();
            // It may have gone to another branch on the left, which can have its directory.
            has_room && (self.relocate(caller, member).is_ok() || !self.leftmost().is_same(&original))
        })
    }

    /// The nearest branch at or above a position in which objects may be created and which can have the directory.
    pub(crate) fn nearest_branch(self: &Arc<Self>, mut position: usize) -> Result<Arc<BranchMember>> {
        let branches = &self.union.branches;
        loop {
            let member = branches.writable_at_or_left_of(position).ok_or(Errno::EROFS)?;
            if self.can_be_in(&member)? {
                return Ok(member);
            }
            let found = branches.position(&member).ok_or(Errno::ESTALE)?;
            position = found.checked_sub(1).ok_or(Errno::EROFS)?;
        }
    }

    /// Returns whether the directory is in a branch, or can be created there so that it is visible.
    pub(crate) fn can_be_in(self: &Arc<Self>, member: &BranchMember) -> Result<bool> {
        let mut node = Arc::clone(self);
        while node.instance_in(member).is_none() {
            node.find_location()?;
            let NodeLocation::At(above) = node.location() else { return Ok(false) };
            if !node.would_show_in(member, &above)? {
                return Ok(false);
            }
            node = above.directory;
        }
        Ok(true)
    }

    /// Returns whether an instance in a branch would be visible as part of this directory: nothing there has the name, and no
    /// higher branch hides the name or redirects it.
    pub(crate) fn would_show_in(&self, member: &BranchMember, above: &ParentEntry) -> Result<bool> {
        let branches = &self.union.branches;
        let own = branches.position(member).ok_or(Errno::ESTALE)?;
        if branches.position(&self.leftmost().member).is_some_and(|leftmost| own < leftmost) {
            return Ok(true);
        }
        let instances = above.directory.instances();
        let position = |instance: &Instance| branches.position(&instance.member).ok_or(Errno::ESTALE);
        let positions = instances.iter().map(position).collect::<Result<Vec<usize>>>()?;
        let instances_above = &instances[..positions.partition_point(|position| *position <= own)];
        let stored = above.stored.clone();
        let query = move |instance: &Instance| LowerVisibility::of(instance, stored.as_name());
        let by_others = query.clone();
        let answers = ParallelQueries::start(instances_above, |_, _| true, move |_, instance| by_others(instance));
        for (index, instance) in instances_above.iter().enumerate() {
            match answers.take(index, &Cancellation::default()).unwrap_or_else(|| Ok(query(instance)))?? {
                LowerVisibility::Nothing => {}
                LowerVisibility::Directory if positions[index] < own => {}
                LowerVisibility::Directory | LowerVisibility::Hidden => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Effect of one of a directory's instances on the visibility of the lower ones' objects of a name.
enum LowerVisibility {
    /// It has nothing of that name: all are visible.
    Nothing,
    /// It has a directory, which is merged with theirs.
    Directory,
    /// It hides the name, or redirects it.
    Hidden,
}

impl LowerVisibility {
    fn of(instance: &Instance, stored: Name<'_>) -> Result<Self> {
        if whiteout::has_whiteout_file(&instance.vnode, stored)? {
            return Ok(Self::Hidden);
        }
        let Some(found) = objects::find(&instance.vnode, stored)? else { return Ok(Self::Nothing) };
        let leads_on = found.attributes.is_directory()
            && !whiteout::is_opaque(&found.vnode)?
            && whiteout::redirect(&found.vnode)?.is_none();
        Ok(if leads_on { Self::Directory } else { Self::Hidden })
    }
}
