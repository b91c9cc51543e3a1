//! Space in the branches: what decides on the placement of objects, and what statfs(2) reports.

use std::sync::Arc;

use vnode::{Caller, Cancellation, Result, StatFs};

use crate::union::branch::branches::BranchMember;
use crate::union::lookup::identity::root_of;
use crate::union::lookup::parallel::ParallelQueries;
use crate::union::settings::ReportedSpace;
use crate::union::state::Union;
use crate::union::state::instance::Instance;

impl Union {
    /// Space that users see.
    pub(crate) fn space(&self, caller: &Caller) -> Result<StatFs> {
        let slots = self.branches.slots();
        let writable = || slots.iter().map(|slot| &slot.member).filter(|member| self.branches.may_create(member));
        let first = writable().next().unwrap_or(&slots[0].member).root.statfs(caller)?;
        match self.settings.reported_space {
            ReportedSpace::First => Ok(first),
            ReportedSpace::Sum => Ok(sum_of(&first, &writable().cloned().collect::<Vec<_>>())),
        }
    }

    /// Returns whether a branch with this space has less than the minimum that is to be left free in it.
    pub(crate) fn is_below_minimum(&self, member: &BranchMember, space: Option<&StatFs>) -> bool {
        let minimum = self.minimum_free(member);
        minimum > 0 && space.is_none_or(|space| free(space) < minimum)
    }

    /// Number of bytes that are to be left free in a branch.
    pub(crate) fn minimum_free(&self, member: &BranchMember) -> u64 {
        member.base.minimum_free.unwrap_or(self.settings.minimum_free)
    }

    /// Returns whether a minimum is to be left free in any of these branches.
    pub(crate) fn has_minimum_free(&self, members: &[Arc<BranchMember>]) -> bool {
        members.iter().any(|member| self.minimum_free(member) > 0)
    }
}

/// The total of the branches, in units of the first, whose other properties apply. Branches on one file system count once.
fn sum_of(first: &StatFs, members: &[Arc<BranchMember>]) -> StatFs {
    let mut counted: Vec<(Arc<BranchMember>, StatFs)> = Vec::new();
    for (member, space) in members.iter().zip(spaces_of(members)) {
        if let Some(space) = space
            && !counted.iter().any(|other| are_on_one_file_system((&other.0, &other.1), (member, &space)))
        {
            counted.push((Arc::clone(member), space));
        }
    }
    let Some(((_, own), others)) = counted.split_first() else { return *first };
    let unit = u128::from(first.fragment_size.max(1));
    let mut sum = *own;
    sum.fragment_size = first.fragment_size.max(1);
    let blocks = |count: fn(&StatFs) -> u64| {
        let bytes = counted.iter().map(|(_, space)| u128::from(count(space)) * u128::from(space.fragment_size));
        u64::try_from(bytes.sum::<u128>() / unit).unwrap_or(u64::MAX)
    };
    sum.blocks = blocks(|space| space.blocks);
    sum.blocks_free = blocks(|space| space.blocks_free);
    sum.blocks_available = blocks(|space| space.blocks_available);
    for (_, space) in others {
        sum.files = sum.files.saturating_add(space.files);
        sum.files_free = sum.files_free.saturating_add(space.files_free);
        // A name must fit wherever the object is placed.
        sum.name_max = sum.name_max.min(space.name_max);
    }
    sum
}

/// Returns whether two branches share their space: they are on one file system, which has no quotas of their own for them.
fn are_on_one_file_system(one: (&BranchMember, &StatFs), other: (&BranchMember, &StatFs)) -> bool {
    let fsid = |member: &BranchMember| member.base.file_system.fsid();
    let has_same_id = fsid(one.0).is_some() && fsid(one.0) == fsid(other.0);
    let has_same_storage = one.0.root.storage().is_some() && one.0.root.storage() == other.0.root.storage();
    (has_same_id || has_same_storage) && one.1.blocks == other.1.blocks
}

/// Space of each of these branches, slow ones queried in parallel; `None` for one that does not report it.
pub(crate) fn spaces_of(members: &[Arc<BranchMember>]) -> Vec<Option<StatFs>> {
    let roots: Vec<Instance> = members.iter().map(root_of).collect();
    let query = |instance: &Instance| instance.vnode.statfs(&Caller::server());
    let answers = ParallelQueries::start_slow(&roots, |_, _| true, move |_, instance| query(instance));
    let answer = |(index, root)| answers.take(index, &Cancellation::default()).unwrap_or_else(|| Ok(query(root)));
    roots.iter().enumerate().map(|instance| answer(instance).flatten().ok()).collect()
}

/// Number of bytes that users can still write.
pub(crate) fn free(space: &StatFs) -> u64 {
    space.blocks_available.saturating_mul(space.fragment_size.into())
}

/// Number of bytes in use.
pub(crate) fn used(space: &StatFs) -> u64 {
    space.blocks.saturating_sub(space.blocks_free).saturating_mul(space.fragment_size.into())
}
