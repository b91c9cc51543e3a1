//! Placement: which branch a new object goes to, and which branches a directory can be in so that users see it there.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{Caller, Errno, Result, StatFs, VnodeRef};

use super::branches::Member;
use super::copy_up::Extent;
use super::node::{Above, Instance, Node, Whereabouts};
use super::settings::Policy;
use super::whiteout;

/// Branches that had no room for something new.
#[derive(Default)]
pub(super) struct FullBranches {
    members: Vec<Arc<Member>>,
    error: Option<Errno>,
}

impl FullBranches {
    /// Passes over a branch because of an error.
    pub(super) fn note(&mut self, member: Arc<Member>, error: Errno) {
        self.members.push(member);
        self.error = Some(error);
    }

    fn has(&self, member: &Arc<Member>) -> bool {
        self.members.iter().any(|full| Arc::ptr_eq(full, member))
    }
}

/// Whether the error says that a branch is full.
pub(super) fn is_full(error: Errno) -> bool {
    matches!(error, Errno::ENOSPC | Errno::EDQUOT)
}

impl Node {
    /// The branch for a new object in this directory, no further to the right than `limit`, and the directory there.
    /// Not in one of those that were found full.
    pub(super) fn place_of_new(
        self: &Arc<Self>,
        caller: &Caller,
        limit: usize,
        full: &mut FullBranches,
    ) -> Result<(Arc<Member>, VnodeRef)> {
        for member in self.candidates(limit)? {
            if full.has(&member) || !self.can_be_in(&member)? {
                continue;
            }
            match self.place_in(caller, &member) {
                Err(error) if self.passes_over(error) => full.note(member, error),
                place => return Ok((member, place?)),
            }
        }
        Err(full.error.unwrap_or(Errno::EROFS))
    }

    /// Whether the error says that another branch is to be tried.
    pub(super) fn passes_over(&self, error: Errno) -> bool {
        self.union.settings.moves_when_full && is_full(error)
    }

    /// Whether its branch being full would move the file.
    pub(super) fn may_meet_a_full_branch(&self) -> bool {
        let branches = &self.union.branches;
        let left = || branches.position(&self.leftmost().member)?.checked_sub(1);
        self.union.settings.moves_when_full
            && left().is_some_and(|position| branches.writable_at_or_left_of(position).is_some())
    }

    /// Moves a file from a full branch to the nearest on the left that has room for it and so many bytes more: whether it
    /// could. An operation has been begun.
    pub(super) fn move_from_full(self: &Arc<Self>, caller: &Caller, bytes: u64) -> bool {
        let branches = &self.union.branches;
        let Some(mut position) = branches.position(&self.leftmost().member) else { return false };
        let Ok(attributes) = self.leftmost().vnode.getattr(&Caller::server()) else { return false };
        let wanted = (attributes.blocks.saturating_mul(512))
            .min(attributes.size)
            .saturating_add(bytes)
            .saturating_add(self.union.settings.minimum_free);
        while let Some(left) = position.checked_sub(1)
            && let Some(member) = branches.writable_at_or_left_of(left)
            && let Some(found) = branches.position(&member)
        {
            let has_room = space_of(&member).is_some_and(|space| free(&space) >= wanted);
            let original = self.leftmost();
            let moved = || self.writable_within(caller, Extent::All, found).is_ok_and(|now| !now.is_same(&original));
            if has_room && moved() {
                return true;
            }
            position = found;
        }
        false
    }

    /// The nearest branch in which something may be created, from a place to the left, that the directory can be in.
    pub(super) fn nearest_branch(self: &Arc<Self>, mut position: usize) -> Result<Arc<Member>> {
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

    /// Whether the directory is in a branch, or can be made there so that it is seen.
    pub(super) fn can_be_in(self: &Arc<Self>, member: &Member) -> Result<bool> {
        let mut node = Arc::clone(self);
        while node.instance_in(member).is_none() {
            node.find_whereabouts()?;
            let Whereabouts::At(above) = node.whereabouts() else { return Ok(false) };
            if !node.would_show_in(member, &above)? {
                return Ok(false);
            }
            node = above.directory;
        }
        Ok(true)
    }

    /// Whether an instance in a branch would be seen as part of this directory: nothing there has the name, and nothing on
    /// the left of it hides the name or leads elsewhere.
    pub(super) fn would_show_in(&self, member: &Member, above: &Above) -> Result<bool> {
        let branches = &self.union.branches;
        let own = branches.position(member).ok_or(Errno::ESTALE)?;
        if branches.position(&self.leftmost().member).is_some_and(|leftmost| own < leftmost) {
            return Ok(true);
        }
        let stored = above.stored.as_name();
        for place in above.directory.instances().iter() {
            let position = branches.position(&place.member).ok_or(Errno::ESTALE)?;
            if position > own {
                break;
            }
            if whiteout::stands(&place.vnode, stored)? {
                return Ok(false);
            }
            let found = match place.vnode.lookup(&Caller::server(), stored) {
                Ok(entry) => entry,
                Err(Errno::ENOENT) => continue,
                Err(error) => return Err(error),
            };
            let leads_on = position < own
                && found.attributes.is_directory()
                && !whiteout::is_opaque(&found.vnode)?
                && whiteout::redirect(&found.vnode)?.is_none();
            if !leads_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Branches for something new in this directory, the best first.
    fn candidates(&self, limit: usize) -> Result<Vec<Arc<Member>>> {
        let settings = &self.union.settings;
        let mut members = match settings.create {
            Policy::First => self.near_the_leftmost(limit)?,
            Policy::ExistingPath => {
                let mut members = self.near_the_leftmost(limit)?;
                members.sort_by_key(|member| self.instance_in(member).is_none());
                members
            }
            Policy::MostFree => {
                let mut members = self.writable_branches(limit);
                members
                    .sort_by_cached_key(|member| std::cmp::Reverse(space_of(member).map_or(0, |space| free(&space))));
                members
            }
            Policy::LeastUsed => {
                let mut members = self.writable_branches(limit);
                members.sort_by_cached_key(|member| space_of(member).map_or(u64::MAX, |space| used(&space)));
                members
            }
            Policy::Random => {
                let mut members = self.writable_branches(limit);
                members.sort_by_cached_key(|_| RandomState::new().build_hasher().finish());
                members
            }
            Policy::RoundRobin => {
                let mut members = self.writable_branches(limit);
                let turn = self.union.turn.fetch_add(1, Ordering::Relaxed);
                let count = members.len().max(1);
                members.rotate_left(turn % count);
                members
            }
        };
        if settings.minimum_free > 0 {
            let is_full =
                |member: &Arc<Member>| space_of(member).is_none_or(|space| free(&space) < settings.minimum_free);
            members.sort_by_cached_key(is_full);
        }
        Ok(members)
    }

    /// Where something may be created, from the left.
    fn writable_branches(&self, limit: usize) -> Vec<Arc<Member>> {
        let slots = self.union.branches.slots();
        let members = slots.iter().take(limit.saturating_add(1)).map(|slot| &slot.member);
        members.filter(|member| self.union.branches.may_create(member)).cloned().collect()
    }

    /// The same from the leftmost instance to the left, and then those on the right that have the directory.
    fn near_the_leftmost(&self, limit: usize) -> Result<Vec<Arc<Member>>> {
        let branches = &self.union.branches;
        let instances = self.instances();
        let leftmost = branches.position(&instances[0].member).ok_or(Errno::ESTALE)?.min(limit);
        let mut members = self.writable_branches(leftmost);
        members.reverse();
        let is_candidate = |instance: &&Instance| {
            branches.position(&instance.member).is_some_and(|position| position > leftmost && position <= limit)
                && branches.may_create(&instance.member)
        };
        members.extend(instances.iter().filter(is_candidate).map(|instance| Arc::clone(&instance.member)));
        Ok(members)
    }
}

fn space_of(member: &Member) -> Option<StatFs> {
    member.root.statfs(&Caller::server()).ok()
}

/// The bytes that users can still write.
fn free(space: &StatFs) -> u64 {
    space.blocks_available.saturating_mul(space.fragment_size.into())
}

fn used(space: &StatFs) -> u64 {
    space.blocks.saturating_sub(space.blocks_free).saturating_mul(space.fragment_size.into())
}
