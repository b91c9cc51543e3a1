//! Chains that run into those of other files or directories.

use std::collections::HashMap;

use super::checker::Checker;
use super::owner::{Owner, SharedChain};
use super::problem::Problem;
use super::question::{Question, RepairChoice};
use crate::fat::format::{ENTRY_SIZE, Link};
use crate::fat::tools::chain::Run;
use crate::fat::tools::cluster_map::ClusterMap;
use crate::fat::tools::directory::DirectoryStart;
use crate::fat::tools::error::ToolError;
use crate::fat::tools::progress::{Phase, Progress};
use crate::fat::tools::volume::Volume;

/// The owner that a shared cluster was claimed by, and how many clusters are before it in its chain.
type FirstOwner = (Owner, u32);

impl Checker<'_> {
    /// Asks about all chains that run into others. Returns whether the check is to start again.
    pub(crate) fn check_shared(&mut self) -> Result<bool, ToolError> {
        self.check_suspended()?;
        if self.shared.is_empty() {
            return Ok(false);
        }
        (self.progress)(Progress { phase: Phase::SharedClusters, done: 0, total: self.shared.len() as u64 });
        let owners = self.first_owners()?;
        let mut free = self.volume.count_free()?.free_clusters.unwrap_or(0);
        let shared = std::mem::take(&mut self.shared);
        let (mut is_left, mut changes) = (false, 0_u32);
        for shared in shared {
            let other = owners.get(&shared.cluster).filter(|(other, _)| other.position != shared.owner.position);
            match self.check_one_shared(&shared, other, &mut free)? {
                Some(RepairChoice::CutOther) => return Ok(true),
                Some(_) => changes += 1,
                None => is_left = true,
            }
        }
        let unlisted = self
            .report
            .counts
            .get(Problem::CrossLink(0, None).code())
            .map_or(0, |count| count.found.saturating_sub(count.repaired));
        self.is_sharing = unlisted > 0;
        // There are more of them than are remembered at once.
        Ok(!is_left && unlisted > 0 && changes > 0 && self.restarts > 0)
    }

    /// Returns the first owner of each shared cluster, in the order in which the check claims them.
    fn first_owners(&mut self) -> Result<HashMap<u32, FirstOwner>, ToolError> {
        let (page, is_dosfs) = (self.options.page, self.options.dosfs);
        let mut search = OwnerSearch {
            wanted: self.shared.iter().map(|shared| shared.cluster).collect(),
            claimed: ClusterMap::new(&self.volume.geometry),
            found: HashMap::new(),
        };
        if let DirectoryStart::Cluster(start) = self.root_range.start {
            let root = Owner {
                path: "/".into(),
                position: None,
                slots: Vec::new(),
                is_directory: true,
                may_own_cluster: false,
                size: 0,
                start,
                parent: 0,
            };
            search.claim(&mut self.volume, &|| root.clone(), start)?;
        }
        let root = DirectoryStart::root(&self.volume.geometry);
        self.volume.walk(page, &mut |volume, entry| {
            let geometry = volume.geometry;
            let named = entry.named;
            let start = named.entry.first_cluster(geometry.width());
            let is_directory = named.entry.is_directory();
            let owner = || Owner {
                path: entry.path(page),
                position: Some(named.position),
                slots: named.slots.clone(),
                is_directory,
                may_own_cluster: is_dosfs && named.entry.attributes.has_reserved(),
                size: named.entry.size,
                start,
                parent: if entry.directory == root { 0 } else { entry.directory.cluster() },
            };
            search.claim(volume, &owner, start)
        })?;
        Ok(search.found)
    }

    /// Asks about one chain. Returns the answer if it is repaired.
    fn check_one_shared(
        &mut self,
        shared: &SharedChain,
        other: Option<&FirstOwner>,
        free: &mut u32,
    ) -> Result<Option<RepairChoice>, ToolError> {
        let owner = &shared.owner;
        let missing = owner.needed(self.volume.geometry.cluster_size()).saturating_sub(shared.own_clusters);
        let can_copy = !owner.is_directory && missing <= *free;
        // Without a directory above, the way to this chain is lost. The check starts again after the other one is cut.
        let is_cuttable = !shared.is_above && self.restarts > 0;
        let can_cut_other = is_cuttable && other.is_some_and(|(other, _)| other.position.is_some());
        let mut answers = vec![RepairChoice::CutThis, RepairChoice::Leave];
        answers.extend(can_cut_other.then_some(RepairChoice::CutOther));
        answers.extend(can_copy.then_some(RepairChoice::Copy));
        let suggested = match other {
            _ if can_copy => RepairChoice::Copy,
            Some((other, 0)) if can_cut_other && self.belongs_here(shared, other)? => RepairChoice::CutOther,
            _ => RepairChoice::CutThis,
        };
        let question = Question {
            problem: Problem::CrossLink(shared.cluster, other.map(|(other, _)| other.path.clone())),
            path: owner.path.clone(),
            other: other.map(|(other, _)| other.path.clone()),
            answers,
            suggested,
        };
        let clusters = vec![Run { first: shared.cluster, length: 1 }];
        let repair = &mut |checker: &mut Self, answer| match (answer, other) {
            (RepairChoice::Copy, _) => checker.copy_shared(shared, missing),
            (RepairChoice::CutOther, Some((other, before))) => checker.cut(other, *before),
            _ => checker.cut_this(shared, other),
        };
        let answer = self.asked(question, clusters, repair)?;
        if answer == Some(RepairChoice::Copy) {
            *free = free.saturating_sub(missing);
        }
        Ok(answer)
    }

    /// Returns whether a directory with two entries is in the directory of the later one according to its own entry `..`.
    fn belongs_here(&mut self, shared: &SharedChain, other: &Owner) -> Result<bool, ToolError> {
        if !shared.owner.is_directory || !other.is_directory || shared.own_clusters > 0 {
            return Ok(false);
        }
        let above = self.above(shared.cluster)?;
        Ok(above.is_some_and(|above| above == shared.owner.parent && above != other.parent))
    }

    /// Ends the chain of the later owner. If both are entries of one directory, it is in that of the earlier one.
    fn cut_this(&mut self, shared: &SharedChain, other: Option<&FirstOwner>) -> Result<(), ToolError> {
        if let Some((other, 0)) = other
            && other.is_directory
            && other.position.is_some()
            && self.above(shared.cluster)? == Some(shared.owner.parent)
        {
            let position = self.volume.offset(shared.cluster)? + ENTRY_SIZE as u64;
            self.volume.set_start(position, other.parent)?;
        }
        self.cut(&shared.owner, shared.own_clusters)
    }

    /// Ends the chain of an owner after this number of clusters, and reduces its size.
    fn cut(&mut self, owner: &Owner, clusters: u32) -> Result<(), ToolError> {
        let Some(position) = owner.position else { return Err(ToolError::Inconsistent) };
        if clusters == 0 {
            self.remove_reference(owner)?;
            return self.volume.flush();
        }
        let last = self.nth_cluster(owner.start, clusters - 1)?;
        self.end_chain(last)?;
        self.reduce_size(owner, position, clusters)?;
        self.volume.flush()
    }

    /// Reduces the size of a file to that of its clusters.
    fn reduce_size(&mut self, owner: &Owner, position: u64, clusters: u32) -> Result<(), ToolError> {
        let size = clusters.saturating_mul(self.volume.geometry.cluster_size());
        if owner.is_directory || owner.size <= size {
            return Ok(());
        }
        self.edit_entry(position, &|entry| entry.size = size)
    }

    fn nth_cluster(&mut self, start: u32, index: u32) -> Result<u32, ToolError> {
        let mut cluster = start;
        for _ in 0..index {
            cluster = match self.volume.table.get(cluster)? {
                Link::Next(next) => next,
                _ => return Err(ToolError::Inconsistent),
            };
        }
        Ok(cluster)
    }

    /// Gives a file copies of the clusters that it shares.
    fn copy_shared(&mut self, shared: &SharedChain, missing: u32) -> Result<(), ToolError> {
        let owner = &shared.owner;
        let Some(position) = owner.position else { return Err(ToolError::Inconsistent) };
        let (clusters, _) = self.volume.chain(shared.cluster, missing)?;
        let count = u32::try_from(clusters.len()).unwrap_or(u32::MAX);
        let new = self.volume.find_free(count, Some(&self.used))?;
        for (&from, &to) in clusters.iter().zip(&new) {
            self.volume.copy_cluster(from, to)?;
            self.used.insert(to);
        }
        self.volume.link(&new)?;
        self.volume.flush()?;
        let first = *new.first().ok_or(ToolError::Inconsistent)?;
        match shared.own_clusters.checked_sub(1) {
            None => self.volume.set_start(position, first)?,
            Some(index) => {
                let last = self.nth_cluster(owner.start, index)?;
                self.volume.table.set(last, Link::Next(first))?;
            }
        }
        self.reduce_size(owner, position, shared.own_clusters.saturating_add(count))?;
        self.volume.flush()
    }
}

/// The search for the first owners of clusters.
struct OwnerSearch {
    wanted: std::collections::HashSet<u32>,
    claimed: ClusterMap,
    found: HashMap<u32, FirstOwner>,
}

impl OwnerSearch {
    /// Claims the first `needed` clusters of a chain, up to one that is claimed.
    fn claim(&mut self, volume: &mut Volume, owner: &dyn Fn() -> Owner, start: u32) -> Result<(), ToolError> {
        let needed = owner().needed(volume.geometry.cluster_size());
        let mut next = volume.follow(Link::Next(start))?;
        let mut before = 0;
        while let Ok(cluster) = next
            && before < needed
            && self.claimed.insert(cluster)
        {
            if self.wanted.contains(&cluster) {
                self.found.insert(cluster, (owner(), before));
            }
            before += 1;
            let link = volume.table.get(cluster)?;
            next = volume.follow(link)?;
        }
        Ok(())
    }
}
