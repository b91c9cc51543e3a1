//! Allocation of clusters: close behind what a file already has, and at the start of the disk for what is new.

use std::collections::HashSet;

use vnode::{Errno, Result};

use crate::fat::format::Link;

use super::run::Run;
use super::storage::Storage;
use super::table::Table;

/// The clusters of a volume: the table, and which free clusters are held for somebody.
pub(crate) struct Clusters {
    table: Table,
    /// Free clusters that are allocated to others only if there are no more: files without data have them as numbers.
    held: HashSet<u32>,
    /// First clusters of chains that were cut off from those that they followed.
    cut_off: Vec<u32>,
}

/// Where clusters are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Near {
    /// After this one, the last of a file; if none is free up to the end of the disk, before it.
    Cluster(u32),
    /// Here if it is free, then after it and before it; otherwise at the start of the disk.
    Exactly(u32),
    /// At the start of the disk.
    Start,
}

impl Clusters {
    /// Returns the clusters of a volume with this table.
    pub(crate) fn new(table: Table) -> Self {
        Self { table, held: HashSet::new(), cut_off: Vec::new() }
    }

    /// Returns the table.
    pub(crate) fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Returns the lowest free cluster that nobody holds, and holds it; `None` if there is none.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn hold_lowest(&mut self, storage: &Storage) -> Result<Option<u32>> {
        let numbers = storage.geometry().cluster_numbers();
        let range = self.table.lowest_free().max(numbers.start)..numbers.end;
        let found = self.table.find_free(storage, range, false, &|cluster| !self.held.contains(&cluster))?;
        self.table.set_lowest_free(found.map_or(numbers.end, |cluster| cluster + 1));
        self.held.extend(found);
        Ok(found)
    }

    /// Holds a cluster that was in use until now, and is free.
    pub(crate) fn hold(&mut self, cluster: u32) {
        self.held.insert(cluster);
    }

    /// Ends the hold of a cluster, if it is held.
    pub(crate) fn release(&mut self, cluster: u32) {
        if self.held.remove(&cluster) {
            self.table.set_lowest_free(self.table.lowest_free().min(cluster));
        }
    }

    /// Notes that a chain from this cluster on was cut off from what it followed, and belongs to nothing.
    pub(crate) fn cut_off(&mut self, first: u32) {
        self.cut_off.push(first);
    }

    /// Returns whether chains were cut off since the last call of [`Clusters::take_cut_off`].
    pub(crate) fn has_cut_off(&self) -> bool {
        !self.cut_off.is_empty()
    }

    /// Returns the first clusters of chains that were cut off, which can be freed after the next synchronization. If the volume was
    /// not unmounted, they may belong to other files.
    pub(crate) fn take_cut_off(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.cut_off)
    }

    /// Allocates up to `count` clusters, at least one, and links them to each other in order; the last one is the end of a chain.
    ///
    /// # Errors
    /// `ENOSPC` if no cluster is free; `EIO`, `ENOMEM`.
    pub(crate) fn allocate(&mut self, storage: &Storage, near: Near, count: u32) -> Result<Vec<Run>> {
        if let Near::Exactly(cluster) = near {
            self.release(cluster);
        }
        let held = &self.held;
        let mut found = search(&mut self.table, storage, near, count, &|cluster| !held.contains(&cluster))?;
        let missing = count.saturating_sub(Run::total(&found));
        if missing > 0 && !held.is_empty() {
            let near = found
                .last()
                .map_or(Near::Cluster(storage.geometry().cluster_numbers().start), |run| Near::Cluster(run.last()));
            let more = search(&mut self.table, storage, near, missing, &|cluster| held.contains(&cluster))?;
            more.iter().flat_map(|run| run.clusters()).for_each(|cluster| Run::push(&mut found, cluster));
        }
        if found.is_empty() {
            return Err(Errno::ENOSPC);
        }
        let mut clusters = found.iter().flat_map(|run| run.clusters()).peekable();
        while let Some(cluster) = clusters.next() {
            let link = clusters.peek().map_or(Link::End, |&next| Link::Next(next));
            self.table.set_link(storage, cluster, link)?;
            self.held.remove(&cluster);
        }
        Ok(found)
    }

    /// Frees clusters.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`: some of the clusters are not free then.
    pub(crate) fn free(&mut self, storage: &Storage, runs: &[Run]) -> Result<()> {
        let mut clusters = runs.iter().flat_map(|run| run.clusters());
        clusters.try_for_each(|cluster| self.table.set_link(storage, cluster, Link::Free))
    }
}

/// Finds up to `count` free clusters that `is_usable` accepts.
fn search(
    table: &mut Table,
    storage: &Storage,
    near: Near,
    count: u32,
    is_usable: &dyn Fn(u32) -> bool,
) -> Result<Vec<Run>> {
    let numbers = storage.geometry().cluster_numbers();
    let mut runs = Vec::new();
    let origin = match near {
        Near::Cluster(cluster) => Some(cluster.saturating_add(1)),
        Near::Exactly(cluster) => {
            let is_free = numbers.contains(&cluster) && table.link(storage, cluster)? == Link::Free;
            is_free.then_some(cluster)
        }
        Near::Start => None,
    };
    let mut forward = origin.unwrap_or(table.lowest_free()).clamp(numbers.start, numbers.end)..numbers.end;
    let mut backward = numbers.start..forward.start;
    while Run::total(&runs) < count {
        let Some(cluster) = table.find_free(storage, forward.clone(), false, is_usable)? else { break };
        Run::push(&mut runs, cluster);
        forward.start = cluster + 1;
        if origin.is_none() {
            table.set_lowest_free(forward.start);
        }
    }
    // Everything below the lowest free cluster is in use.
    while origin.is_some() && Run::total(&runs) < count {
        let Some(cluster) = table.find_free(storage, backward.clone(), true, is_usable)? else { break };
        Run::push(&mut runs, cluster);
        backward.end = cluster;
    }
    Ok(runs)
}
