//! Candidates for a new object: the branches that the create policy permits, best first.

use std::cmp::Reverse;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{Caller, Errno, Result, StatFs};

use super::space::{free, spaces_of, used};
use crate::union::branch::branches::BranchMember;
use crate::union::policies::{BranchOrder, CreatePolicy};
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation};

impl Node {
    /// Branches for a new object in this directory, best first, none lower than `limit`.
    pub(crate) fn candidates(self: &Arc<Self>, limit: usize) -> Result<Vec<Arc<BranchMember>>> {
        let mut members = match self.union.settings.create {
            CreatePolicy::First => self.branches_near_leftmost(limit)?,
            CreatePolicy::ExistingPath => {
                let mut members = self.branches_near_leftmost(limit)?;
                members.sort_by_key(|member| self.instance_in(member).is_none());
                members
            }
            CreatePolicy::Anywhere(order) => self.in_order(self.writable_branches(limit), order),
            CreatePolicy::WithinExistingPath(order) => {
                let mut members = self.writable_branches(limit);
                members.retain(|member| self.instance_in(member).is_some());
                match members.is_empty() {
                    true => self.branches_near_leftmost(limit)?,
                    false => self.in_order(members, order),
                }
            }
            CreatePolicy::WithinSharedPath(order) => {
                let path = self.path_upwards()?;
                let depth =
                    |member: &Arc<BranchMember>| path.iter().position(|node| node.instance_in(member).is_some());
                let mut members = self.in_order(self.writable_branches(limit), order);
                members.sort_by_cached_key(|member| depth(member).unwrap_or(path.len()));
                members
            }
        };
        if self.union.has_minimum_free(&members) {
            sort_by_space(&mut members, |member, space| self.union.is_below_minimum(member, space));
        }
        Ok(members)
    }

    /// Sorts branches by preference.
    pub(crate) fn in_order(&self, mut members: Vec<Arc<BranchMember>>, order: BranchOrder) -> Vec<Arc<BranchMember>> {
        match order {
            BranchOrder::Leftmost => {}
            BranchOrder::MostFree => sort_by_space(&mut members, |_, space| Reverse(space.map_or(0, free))),
            BranchOrder::LeastFree => sort_by_space(&mut members, |_, space| space.map_or(u64::MAX, free)),
            BranchOrder::LeastUsed => sort_by_space(&mut members, |_, space| space.map_or(u64::MAX, used)),
            BranchOrder::Random => members.sort_by_cached_key(|_| random()),
            BranchOrder::WeightedRandom => {
                sort_by_space(&mut members, |_, space| weighted_random_key(space.map_or(0, free)));
            }
            BranchOrder::RoundRobin => {
                let turn = self.union.round_robin_counter.fetch_add(1, Ordering::Relaxed);
                let count = members.len().max(1);
                members.rotate_left(turn % count);
            }
            BranchOrder::Newest => members.sort_by_cached_key(|member| {
                let time = |directory: vnode::VnodeRef| Some(directory.getattr(&Caller::server()).ok()?.mtime);
                Reverse(self.instance_in(member).and_then(time))
            }),
        }
        members
    }

    /// This directory and those above it, up to the root.
    fn path_upwards(self: &Arc<Self>) -> Result<Vec<Arc<Node>>> {
        let mut path = vec![Arc::clone(self)];
        while let Some(node) = path.last()
            && !node.is_root()
        {
            node.find_location()?;
            let NodeLocation::At(above) = node.location() else { break };
            path.push(above.directory);
        }
        Ok(path)
    }

    /// Branches in which objects may be created, leftmost first.
    pub(crate) fn writable_branches(&self, limit: usize) -> Vec<Arc<BranchMember>> {
        let slots = self.union.branches.slots();
        let members = slots.iter().take(limit.saturating_add(1)).map(|slot| &slot.member);
        members.filter(|member| self.union.branches.may_create(member)).cloned().collect()
    }

    /// Those branches from the leftmost instance upwards, followed by the lower ones that have the directory.
    fn branches_near_leftmost(&self, limit: usize) -> Result<Vec<Arc<BranchMember>>> {
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

/// Sorts branches by a key derived from their space, which is absent for one that does not report it. Slow ones are queried in
/// parallel.
fn sort_by_space<K: Ord>(members: &mut Vec<Arc<BranchMember>>, key: impl Fn(&BranchMember, Option<&StatFs>) -> K) {
    let keys = spaces_of(members).into_iter().zip(members.iter()).map(|(space, member)| key(member, space.as_ref()));
    let mut keyed: Vec<(K, Arc<BranchMember>)> =
        keys.collect::<Vec<K>>().into_iter().zip(std::mem::take(members)).collect();
    keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
    members.extend(keyed.into_iter().map(|(_, member)| member));
}

/// A random number.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random key that is the least of several with a probability in proportion to its weight: exponentially distributed, with the
/// weight as its rate.
fn weighted_random_key(weight: u64) -> u64 {
    /// Number of random bits, all of which a floating-point number holds.
    const BITS: u32 = 53;
    // Above 0, so that its logarithm is finite.
    let uniform = ((random() >> (u64::BITS - BITS)) as f64 + 0.5) / (1_u64 << BITS) as f64;
    // Positive numbers have the order of their bits.
    (-uniform.ln() / weight as f64).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_probabilities() {
        const TRIALS: u32 = 4000;
        let is_first = |_: &u32| weighted_random_key(3 << 40) < weighted_random_key(1 << 40);
        let count = (0..TRIALS).filter(is_first).count();
        assert!((2800..3200).contains(&count), "{count} of {TRIALS}, not three quarters");
        assert!((0..TRIALS).all(|_| weighted_random_key(1) < weighted_random_key(0)), "a full branch comes last");
    }
}
