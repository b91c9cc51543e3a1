//! Clusters that belong to nothing: directories, excess of files, and other chains.

use std::collections::HashSet;

use super::checker::Checker;
use super::context::DirectoryContext;
use super::options::{FsckMode, LostChains};
use super::owner::Owner;
use super::problem::Problem;
use super::report::Repair;
use super::saved::SavedEntry;
use crate::fat::format::{ENTRY_SIZE, EntryAttributes, EntrySlot, Link, SAVED_DIRECTORY, SAVED_FILE, ShortName};
use crate::fat::tools::chain::Run;
use crate::fat::tools::cluster_map::ClusterMap;
use crate::fat::tools::directory::{DirectoryRange, DirectoryStart};
use crate::fat::tools::error::ToolError;
use crate::fat::tools::progress::{Meter, Phase};

/// Number of lost directories that are looked at.
const DIRECTORIES_MAX: usize = 65_536;
/// Number of clusters of lost directories and of what is in them that are looked at to find out whether they are copies, for each
/// cluster of the file system: chains that meet are followed again from each of their beginnings.
const STALE_CLUSTERS_FACTOR: u32 = 8;
/// Largest number of them.
const STALE_CLUSTERS_MAX: u32 = 1 << 26;
/// Number of runs of a lost chain that are reported.
const RUNS_MAX: usize = 16;

/// A chain of clusters that belong to nothing.
#[derive(Clone, Debug)]
struct LostPart {
    first: u32,
    last: u32,
    count: u32,
    runs: Vec<Run>,
    /// The cluster after the last one, if the part ends only because it is too long for a file.
    rest: Option<u32>,
}

/// Where a chain of lost clusters leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LostChainEnd {
    /// To a cluster that has an owner, or too far to find out.
    Owned,
    /// Back into itself.
    Loop,
    /// Nowhere else.
    Own,
}

impl Checker<'_> {
    /// Finds clusters that belong to nothing, and saves or frees them. Returns whether the check is to start again.
    pub(crate) fn check_lost(&mut self) -> Result<bool, ToolError> {
        let mut lost = self.lost_clusters()?;
        if self.options.lost == LostChains::Save {
            self.check_lost_directories(&lost)?;
            if self.check_shared()? {
                return Ok(true);
            }
        }
        self.free_excess(&mut lost)?;
        self.check_lost_chains(&lost)?;
        Ok(false)
    }

    fn is_lost(&self, lost: &ClusterMap, cluster: u32) -> bool {
        lost.contains(cluster) && !self.used.contains(cluster) && !self.excess.contains(cluster)
    }

    /// Returns the clusters that are in use according to the tables only.
    fn lost_clusters(&mut self) -> Result<ClusterMap, ToolError> {
        let mut lost = ClusterMap::new(&self.volume.geometry);
        let total = u64::from(self.volume.geometry.clusters());
        let mut meter = Meter::start(Phase::LostClusters, total, &mut *self.progress);
        for cluster in self.volume.geometry.cluster_numbers() {
            meter.add(1, &mut *self.progress);
            let is_owned = self.used.contains(cluster) || self.excess.contains(cluster);
            if !is_owned && !matches!(self.volume.table.get(cluster)?, Link::Free | Link::Bad) {
                lost.insert(cluster);
            }
        }
        Ok(lost)
    }

    /// Returns the lost clusters that another one leads to.
    fn pointed(&mut self, lost: &ClusterMap) -> Result<ClusterMap, ToolError> {
        let mut pointed = ClusterMap::new(&self.volume.geometry);
        for cluster in lost.iter() {
            if let Link::Next(next) = self.volume.table.get(cluster)?
                && self.is_lost(lost, cluster)
                && self.is_lost(lost, next)
            {
                pointed.insert(next);
            }
        }
        Ok(pointed)
    }

    /// Gives lost directories entries in the root directory, those first that are in no other one.
    fn check_lost_directories(&mut self, lost: &ClusterMap) -> Result<(), ToolError> {
        let pointed = self.pointed(lost)?;
        let mut directories = Vec::new();
        for cluster in lost.iter().filter(|&cluster| !pointed.contains(cluster)) {
            if let Some(parent) = self.parent_of(cluster)?
                && directories.len() < DIRECTORIES_MAX
            {
                directories.push((cluster, parent));
            }
        }
        let (inner, outer): (Vec<_>, Vec<_>) = directories.into_iter().partition(|&(_, parent)| lost.contains(parent));
        let mut budget = self.volume.geometry.clusters().saturating_mul(STALE_CLUSTERS_FACTOR).min(STALE_CLUSTERS_MAX);
        for (cluster, parent) in outer.into_iter().chain(inner) {
            if self.is_lost(lost, cluster) && !self.is_stale(lost, cluster, &mut budget)? {
                self.check_lost_directory(cluster, parent)?;
            }
        }
        Ok(())
    }

    /// Returns whether a lost directory is only a copy of another one: then its own chain, or that of a file or directory in
    /// it or below, leads to a cluster that has an owner. One that has entries after its end or no end at all, or is too large
    /// to find out, is not taken for a directory either.
    fn is_stale(&mut self, lost: &ClusterMap, directory: u32, budget: &mut u32) -> Result<bool, ToolError> {
        let width = self.volume.geometry.width();
        let mut seen = HashSet::from([directory]);
        let mut open = vec![directory];
        while let Some(directory) = open.pop() {
            let (end, clusters) = self.follow_lost(lost, directory, budget)?;
            if end != LostChainEnd::Own {
                return Ok(true);
            }
            let start = DirectoryStart::Cluster(directory);
            let mut reader = DirectoryRange { start, clusters, may_grow: false }.reader();
            let mut has_ended = false;
            while let Some(slot) = reader.next(&mut self.volume)? {
                let entry = match EntrySlot::decode(&slot.bytes) {
                    EntrySlot::End => {
                        has_ended = true;
                        continue;
                    }
                    EntrySlot::Deleted => continue,
                    _ if has_ended => return Ok(true),
                    EntrySlot::Entry(entry) if !entry.name.is_dots() => entry,
                    _ => continue,
                };
                let start = entry.first_cluster(width);
                if entry.is_directory() && self.is_lost(lost, start) {
                    open.extend(seen.insert(start).then_some(start));
                } else if self.follow_lost(lost, start, budget)?.0 == LostChainEnd::Owned {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Follows a chain of lost clusters. Returns where it leads, and the number of lost clusters until there.
    fn follow_lost(
        &mut self,
        lost: &ClusterMap,
        start: u32,
        budget: &mut u32,
    ) -> Result<(LostChainEnd, u32), ToolError> {
        let (mut cluster, mut count) = (start, 0);
        // A cluster of the chain, and the number of clusters from there to the next one that replaces it, which doubles: a loop comes
        // back to one of them.
        let (mut passed, mut distance, mut distance_max) = (None, 0_u64, 1);
        loop {
            *budget = budget.saturating_sub(1);
            if *budget == 0 || self.used.contains(cluster) {
                return Ok((LostChainEnd::Owned, count));
            }
            if passed == Some(cluster) {
                return Ok((LostChainEnd::Loop, count));
            }
            distance += 1;
            if distance == distance_max {
                (passed, distance, distance_max) = (Some(cluster), 0, 2 * distance_max);
            }
            match self.is_lost(lost, cluster).then(|| self.volume.table.get(cluster)).transpose()? {
                Some(Link::Next(next)) => (cluster, count) = (next, count + 1),
                Some(_) => return Ok((LostChainEnd::Own, count + 1)),
                None => return Ok((LostChainEnd::Own, count)),
            }
        }
    }

    /// Returns the cluster that the entry `..` of a directory has, if the cluster is the first one of a directory.
    fn parent_of(&mut self, cluster: u32) -> Result<Option<u32>, ToolError> {
        let start = DirectoryStart::Cluster(cluster);
        let mut reader = DirectoryRange { start, clusters: 1, may_grow: false }.reader();
        let width = self.volume.geometry.width();
        let mut parent = None;
        for expected in [ShortName::DOT, ShortName::DOT_DOT] {
            let slot = reader.next(&mut self.volume)?.map(|slot| EntrySlot::decode(&slot.bytes));
            let Some(EntrySlot::Entry(entry)) = slot else { return Ok(None) };
            let start = entry.first_cluster(width);
            if entry.name != expected || !entry.is_directory() || expected == ShortName::DOT && start != cluster {
                return Ok(None);
            }
            parent = Some(start);
        }
        Ok(parent)
    }

    fn check_lost_directory(&mut self, cluster: u32, parent: u32) -> Result<(), ToolError> {
        let clusters = vec![Run { first: cluster, length: 1 }];
        // What a check without repairs takes it for.
        let mut saved = SavedEntry { path: "/FSCK.DIR".into(), position: 0, parent };
        let repair = &mut |checker: &mut Self| {
            saved = checker.save_entry(SAVED_DIRECTORY, EntryAttributes::DIRECTORY, cluster, 0)?;
            let above = checker.volume.offset(cluster)? + ENTRY_SIZE as u64;
            checker.volume.set_start(above, saved.parent)
        };
        let is_repaired = self.found(Problem::LostDirectory(cluster), None, clusters, repair)?;
        if !is_repaired && self.options.mode != FsckMode::Check {
            return Ok(());
        }
        let owner = Owner {
            path: saved.path,
            position: Some(saved.position),
            slots: Vec::new(),
            is_directory: true,
            may_own_cluster: false,
            size: 0,
            start: cluster,
            parent: saved.parent,
        };
        let (clusters, may_grow) = self.check_chain(&owner)?;
        if clusters == 0 {
            return Ok(());
        }
        self.report.directories += 1;
        let path = format!("{}/", owner.path);
        let range = DirectoryRange { start: DirectoryStart::Cluster(cluster), clusters, may_grow };
        let mut context = DirectoryContext { range, parent: saved.parent, path: path.clone(), owner: Some(owner) };
        self.set_above(&context.range, true)?;
        let pending = self.check_directory(&mut context)?;
        self.check_below(pending, context.range.start.cluster(), path)?;
        self.set_above(&context.range, false)
    }

    /// Frees the clusters after the ends of files, unless chains still share clusters.
    fn free_excess(&mut self, lost: &mut ClusterMap) -> Result<(), ToolError> {
        let has_excess = self.excess.next(0).is_some() || self.ends.next(0).is_some();
        if self.options.mode == FsckMode::Check || self.is_sharing || !has_excess {
            return Ok(());
        }
        self.begin_writing()?;
        for cluster in self.ends.iter() {
            self.volume.table.set(cluster, Link::End)?;
        }
        self.volume.flush()?;
        for cluster in self.excess.iter() {
            self.volume.table.set(cluster, Link::Free)?;
            lost.remove(cluster);
        }
        self.volume.flush()?;
        for index in std::mem::take(&mut self.excess_findings) {
            if let Some(finding) = self.report.findings.get_mut(index) {
                finding.repair = Repair::Done;
            }
        }
        if let Some(count) = self.report.counts.get_mut(Problem::ChainBeyondSize(0).code()) {
            count.repaired += std::mem::take(&mut self.excess_count);
        }
        self.excess = ClusterMap::new(&self.volume.geometry);
        Ok(())
    }

    /// Saves or frees the lost chains: those with a beginning first, then those without.
    fn check_lost_chains(&mut self, lost: &ClusterMap) -> Result<(), ToolError> {
        let pointed = self.pointed(lost)?;
        for is_loop in [false, true] {
            for cluster in lost.iter() {
                let mut next = (is_loop || !pointed.contains(cluster)).then_some(cluster);
                while let Some(first) = next.filter(|&first| self.is_lost(lost, first)) {
                    let part = self.lost_part(lost, first)?;
                    self.check_lost_part(&part)?;
                    next = part.rest;
                }
            }
        }
        Ok(())
    }

    /// Claims a lost chain, or as much of it as a file can have.
    fn lost_part(&mut self, lost: &ClusterMap, first: u32) -> Result<LostPart, ToolError> {
        let clusters_max = u32::MAX / self.volume.geometry.cluster_size();
        let mut part = LostPart { first, last: first, count: 0, runs: Vec::new(), rest: None };
        let mut cluster = first;
        loop {
            self.used.insert(cluster);
            (part.last, part.count) = (cluster, part.count + 1);
            if part.runs.len() < RUNS_MAX {
                Run::append(&mut part.runs, cluster);
            }
            match self.volume.table.get(cluster)? {
                Link::Next(next) if self.is_lost(lost, next) && part.count == clusters_max => {
                    return Ok(LostPart { rest: Some(next), ..part });
                }
                Link::Next(next) if self.is_lost(lost, next) => cluster = next,
                _ => return Ok(part),
            }
        }
    }

    fn check_lost_part(&mut self, part: &LostPart) -> Result<(), ToolError> {
        let size = part.count.saturating_mul(self.volume.geometry.cluster_size());
        let repair = &mut |checker: &mut Self| match checker.options.lost {
            LostChains::Save => {
                checker.end_chain(part.last)?;
                checker.volume.flush()?;
                checker.save_entry(SAVED_FILE, EntryAttributes::ARCHIVE, part.first, size).map(drop)?;
                checker.report.files += 1;
                Ok(())
            }
            LostChains::Free => checker.free_part(part),
        };
        self.found(Problem::LostChain(part.count), None, part.runs.clone(), repair).map(drop)
    }

    fn free_part(&mut self, part: &LostPart) -> Result<(), ToolError> {
        let mut cluster = part.first;
        for _ in 0..part.count {
            let link = self.volume.table.get(cluster)?;
            self.volume.table.set(cluster, Link::Free)?;
            self.used.remove(cluster);
            match link {
                Link::Next(next) => cluster = next,
                _ => break,
            }
        }
        Ok(())
    }
}
