//! Chains of files and directories: each cluster is claimed by its first owner.

use super::checker::Checker;
use super::options::FsckMode;
use super::owner::{Owner, SharedChain};
use super::problem::Problem;
use super::question::{Question, RepairChoice};
use super::report::Repair;
use crate::fat::format::Link;
use crate::fat::tools::chain::{ChainEnd, Run};
use crate::fat::tools::error::ToolError;

/// Number of chains running into others that are remembered. More are repaired after a restart.
const SHARED_MAX: usize = 4096;

/// Result of following a chain.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// Number of clusters that are claimed, or are excess.
    clusters: u32,
    /// The last of them.
    last: u32,
    /// The cluster in which the data ends.
    data_end: u32,
    stop: ClaimEnd,
}

/// The reason why a chain is not followed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimEnd {
    /// It ends there.
    End(ChainEnd),
    /// It leads back to this cluster of its own.
    Own(u32),
    /// It leads to this cluster of another owner.
    Other(u32),
}

impl Checker<'_> {
    /// Checks the chain of an owner and claims its clusters. Returns how many are its own, and whether the chain ends after
    /// them.
    pub(crate) fn check_chain(&mut self, owner: &Owner) -> Result<(u32, bool), ToolError> {
        if owner.start == 0 {
            return self.check_without_chain(owner).map(|()| (0, false));
        }
        let needed = owner.needed(self.volume.geometry.cluster_size());
        let claim = self.claim(owner.start, needed)?;
        if claim.clusters == 0 && matches!(claim.stop, ClaimEnd::End(_)) {
            return self.check_start(owner, claim.stop);
        }
        let own_clusters = claim.clusters.min(needed);
        if let ClaimEnd::Other(cluster) = claim.stop
            && claim.clusters < needed
        {
            let is_above = self.above.contains(cluster);
            self.remember_shared(SharedChain { owner: owner.clone(), own_clusters, cluster, is_above });
            return Ok((own_clusters, false));
        }
        let ends = self.check_end(owner, &claim)?;
        if owner.is_directory {
            return Ok((own_clusters, ends));
        }
        if claim.clusters < needed && ends {
            self.check_short(owner, &claim)?;
        }
        if claim.clusters > needed || matches!(claim.stop, ClaimEnd::Other(_)) {
            self.check_long(owner, needed, &claim)?;
        }
        Ok((own_clusters, ends))
    }

    /// Follows a chain; the first `needed` clusters are claimed, and the others are excess.
    fn claim(&mut self, start: u32, needed: u32) -> Result<Claim, ToolError> {
        let mut claim = Claim { clusters: 0, last: 0, data_end: 0, stop: ClaimEnd::End(ChainEnd::Marked) };
        let mut link = Link::Next(start);
        loop {
            let cluster = match self.volume.follow(link)? {
                Ok(cluster) => cluster,
                Err(end) => return Ok(Claim { stop: ClaimEnd::End(end), ..claim }),
            };
            let is_excess = claim.clusters >= needed;
            if self.used.contains(cluster) || is_excess && self.excess.contains(cluster) {
                let is_own = self.is_among(start, claim.clusters, cluster)?;
                return Ok(Claim {
                    stop: if is_own { ClaimEnd::Own(cluster) } else { ClaimEnd::Other(cluster) },
                    ..claim
                });
            }
            if is_excess {
                self.excess.insert(cluster);
            } else {
                self.excess.remove(cluster);
                self.used.insert(cluster);
                claim.data_end = cluster;
            }
            claim.clusters += 1;
            claim.last = cluster;
            link = self.volume.table.get(cluster)?;
        }
    }

    /// Returns whether a cluster is among the first `count` of a chain.
    fn is_among(&mut self, start: u32, count: u32, cluster: u32) -> Result<bool, ToolError> {
        let mut each = start;
        for _ in 0..count {
            if each == cluster {
                return Ok(true);
            }
            match self.volume.table.get(each)? {
                Link::Next(next) => each = next,
                _ => break,
            }
        }
        Ok(false)
    }

    fn remember_shared(&mut self, shared: SharedChain) {
        self.is_sharing = true;
        if self.shared.len() < SHARED_MAX {
            self.shared.push(shared);
        } else {
            let (path, clusters) = (shared.owner.path, vec![Run { first: shared.cluster, length: 1 }]);
            self.list(Problem::CrossLink(shared.cluster, None), Some(&path), clusters, Repair::Left);
        }
    }

    /// Checks an owner without a first cluster.
    fn check_without_chain(&mut self, owner: &Owner) -> Result<(), ToolError> {
        let problem = match owner.size {
            _ if owner.is_directory => Problem::DirectoryWithoutCluster,
            0 => return Ok(()),
            size => Problem::SizeWithoutChain(size),
        };
        let repair = &mut |checker: &mut Self| checker.remove_reference(owner);
        self.found(problem, Some(&owner.path), Vec::new(), repair).map(drop)
    }

    /// Reports a first cluster that cannot be one.
    fn check_start(&mut self, owner: &Owner, stop: ClaimEnd) -> Result<(u32, bool), ToolError> {
        let ClaimEnd::End(end) = stop else { return Ok((0, false)) };
        if owner.position.is_some() {
            let repair = &mut |checker: &mut Self| checker.remove_reference(owner);
            self.found(Problem::StartInvalid(end), Some(&owner.path), Vec::new(), repair)?;
            return Ok((0, false));
        }
        self.used.insert(owner.start);
        let repair = &mut |checker: &mut Self| checker.end_chain(owner.start);
        let is_repaired = self.found(Problem::RootStart(end), Some(&owner.path), Vec::new(), repair)?;
        Ok((1, is_repaired))
    }

    /// Reports a chain that does not end with a mark. Returns whether it ends there after the repair.
    fn check_end(&mut self, owner: &Owner, claim: &Claim) -> Result<bool, ToolError> {
        let last = claim.last;
        let clusters = vec![Run { first: last, length: 1 }];
        let problem = match claim.stop {
            ClaimEnd::End(ChainEnd::Missing(next)) => Problem::LinkMissing(next),
            ClaimEnd::End(ChainEnd::Free(next)) => Problem::LinkFree(next),
            ClaimEnd::End(ChainEnd::Bad(next)) => Problem::LinkBad(next),
            ClaimEnd::Own(cluster) => return self.check_loop(owner, last, cluster),
            ClaimEnd::End(ChainEnd::Marked | ChainEnd::Endless) | ClaimEnd::Other(_) => return Ok(true),
        };
        let repair = &mut |checker: &mut Self| checker.end_chain(last);
        let is_repaired = self.found(problem, Some(&owner.path), clusters, repair)?;
        Ok(is_repaired || self.options.mode == FsckMode::Check)
    }

    fn check_loop(&mut self, owner: &Owner, last: u32, cluster: u32) -> Result<bool, ToolError> {
        let question = Question {
            problem: Problem::ChainLoop(cluster),
            path: owner.path.clone(),
            other: None,
            answers: vec![RepairChoice::CutThis, RepairChoice::Leave],
            suggested: RepairChoice::CutThis,
        };
        let repair = &mut |checker: &mut Self, _| checker.end_chain(last);
        let answer = self.asked(question, vec![Run { first: last, length: 1 }], repair)?;
        Ok(answer.is_some() || self.options.mode == FsckMode::Check)
    }

    /// Reports a file whose chain is shorter than its size.
    fn check_short(&mut self, owner: &Owner, claim: &Claim) -> Result<(), ToolError> {
        // The chain has fewer clusters than the size needs, so this is less than the size.
        let chain = claim.clusters.saturating_mul(self.volume.geometry.cluster_size());
        let repair = &mut |checker: &mut Self| match owner.position {
            Some(position) => checker.edit_entry(position, &|entry| entry.size = chain),
            None => Ok(()),
        };
        self.found(Problem::SizeBeyondChain(owner.size, chain), Some(&owner.path), Vec::new(), repair).map(drop)
    }

    /// Reports a file whose chain is longer than its size. The clusters are freed at the end, when nobody shares them.
    fn check_long(&mut self, owner: &Owner, needed: u32, claim: &Claim) -> Result<(), ToolError> {
        let problem = Problem::ChainBeyondSize(owner.size);
        if needed == 0 {
            let repair = &mut |checker: &mut Self| checker.remove_reference(owner);
            return self.found(problem, Some(&owner.path), Vec::new(), repair).map(drop);
        }
        self.ends.insert(claim.data_end);
        let repair = if self.options.mode == FsckMode::Check { Repair::Possible } else { Repair::Left };
        let clusters = vec![Run { first: claim.data_end, length: 1 }];
        self.excess_count += 1;
        let index = self.list(problem, Some(&owner.path), clusters, repair);
        self.excess_findings.extend(index);
        Ok(())
    }

    /// Removes the reference of an entry to a chain: a file becomes empty, and a directory is deleted.
    pub(crate) fn remove_reference(&mut self, owner: &Owner) -> Result<(), ToolError> {
        let width = self.volume.geometry.width();
        match owner.position {
            Some(_) if owner.is_directory => self.delete_entry(owner),
            Some(position) => self.edit_entry(position, &|entry| {
                entry.set_first_cluster(width, 0);
                entry.size = 0;
            }),
            None => Ok(()),
        }
    }
}
