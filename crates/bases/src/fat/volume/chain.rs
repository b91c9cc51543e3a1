//! Chains: the clusters of a file or directory, which grow at the end and are cut after a synchronization.

use vnode::{Errno, Result};

use crate::fat::format::Link;

use super::allocation::{Clusters, Near};
use super::positions::Positions;
use super::run::Run;
use super::storage::Storage;
use super::table::Table;

/// The chain of an object.
///
/// A file that became smaller keeps its clusters until the smaller size is on the disk. Until then it may use them again.
#[derive(Debug)]
pub(crate) struct Chain {
    positions: Positions,
    /// Number of clusters of the chain, once it is known.
    length: Option<u32>,
}

impl Chain {
    /// Returns a chain that starts with this cluster and has an unknown length; 0 is that of an empty chain.
    pub(crate) fn new(first: u32) -> Self {
        let length = if first == 0 { Some(0) } else { None };
        Self { positions: Positions::new(first), length }
    }

    /// Returns a chain of these runs.
    pub(crate) fn of_runs(runs: &[Run]) -> Self {
        let mut chain = Self::new(0);
        chain.positions.append(0, runs);
        chain.length = Some(Run::total(runs));
        chain
    }

    /// Returns the first cluster; 0 of an empty chain.
    pub(crate) fn first(&self) -> u32 {
        self.positions.first().unwrap_or(0)
    }

    /// Returns the number of clusters, if it is known.
    pub(crate) fn known_length(&self) -> Option<u32> {
        self.length
    }

    /// Returns the clusters from `index` on, up to `count` and as far as they follow each other on the disk.
    ///
    /// # Errors
    /// `EIO` if the chain ends before `index`, is damaged, or cannot be read.
    pub(crate) fn find(&mut self, table: &mut Table, storage: &Storage, index: u32, count: u32) -> Result<Run> {
        let found = self.positions.find(table, storage, index, count)?;
        found.ok_or_else(|| {
            let first = self.first();
            storage.damage("size-beyond-chain", format_args!("the chain of cluster {first} ends before its file"))
        })
    }

    /// Follows the chain towards the cluster with an index, by `steps_max` clusters at most. Returns whether nothing is left to follow.
    ///
    /// # Errors
    /// `EIO` if the chain is damaged, or cannot be read.
    pub(crate) fn approach(
        &mut self,
        table: &mut Table,
        storage: &Storage,
        index: u32,
        steps_max: u32,
    ) -> Result<bool> {
        self.positions.approach(table, storage, index, steps_max)
    }

    /// Returns all runs of a chain of at most `length_max` clusters, and thereby its length. A chain that ends with a free or
    /// invalid link ends there.
    ///
    /// # Errors
    /// `EIO` for a longer chain, or a table that cannot be read.
    pub(crate) fn runs(&mut self, table: &mut Table, storage: &Storage, length_max: u32) -> Result<Vec<Run>> {
        let runs = follow(table, storage, self.first(), length_max)?;
        let length = Run::total(&runs);
        self.positions = Positions::default();
        self.positions.append(0, &runs);
        self.length = Some(length);
        Ok(runs)
    }

    /// Makes sure that the chain has at least `wanted` clusters, as far as there are free ones, and returns the number that it has. The
    /// first `used` hold data. `first` is where the first cluster of an empty chain is to be.
    ///
    /// # Errors
    /// `ENOSPC` if no cluster could be added although none is unused; `EIO`, `ENOMEM`.
    pub(crate) fn extend(
        &mut self,
        clusters: &mut Clusters,
        storage: &Storage,
        (used, wanted): (u32, u32),
        first: Near,
    ) -> Result<u32> {
        let length = self.settle(clusters, storage, used)?;
        if wanted <= length {
            return Ok(length);
        }
        let last = match length.checked_sub(1) {
            None => None,
            Some(index) => Some(self.find(clusters.table(), storage, index, 1)?.last()),
        };
        let runs = match clusters.allocate(storage, last.map_or(first, Near::Cluster), wanted - length) {
            Err(Errno::ENOSPC) if length > used => return Ok(length),
            result => result?,
        };
        if let (Some(last), Some(run)) = (last, runs.first()) {
            clusters.table().set_link(storage, last, Link::Next(run.cluster))?;
        }
        self.positions.append(length, &runs);
        let length = length + Run::total(&runs);
        self.length = Some(length);
        Ok(length)
    }

    /// Cuts the chain to `length` clusters, and frees the rest. Of a chain whose length is not known, nothing says that the rest belongs
    /// to it: it is cut off as [`Chain::settle`] does.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn cut(&mut self, clusters: &mut Clusters, storage: &Storage, length: u32) -> Result<()> {
        let Some(known) = self.length else { return self.settle_at_most(clusters, storage, length) };
        if known <= length {
            return Ok(());
        }
        let rest = match length.checked_sub(1) {
            None => Some(self.first()).filter(|&first| first != 0),
            Some(last) => match self.positions.find(clusters.table(), storage, last, 1)? {
                None => None,
                Some(run) => {
                    let next = clusters.table().link(storage, run.cluster)?;
                    clusters.table().set_link(storage, run.cluster, Link::End)?;
                    if let Link::Next(next) = next { Some(next) } else { None }
                }
            },
        };
        self.positions.truncate(length);
        self.length = Some(length);
        match rest {
            Some(rest) => free_chain(clusters, storage, rest, known - length),
            None => Ok(()),
        }
    }

    /// Settles a chain that holds data in its first `length` clusters, unless it is shorter.
    fn settle_at_most(&mut self, clusters: &mut Clusters, storage: &Storage, length: u32) -> Result<()> {
        if let Some(last) = length.checked_sub(1)
            && self.positions.find(clusters.table(), storage, last, 1)?.is_none()
        {
            return Ok(());
        }
        self.settle(clusters, storage, length).map(drop)
    }

    /// Determines the length of a chain whose first `used` clusters hold data. What follows them on the disk is cut off, since
    /// nothing says that it belongs to this file, see [`Clusters::take_cut_off`]. Returns the length.
    ///
    /// # Errors
    /// `EIO` if the chain is shorter; `ENOMEM`.
    pub(crate) fn settle(&mut self, clusters: &mut Clusters, storage: &Storage, used: u32) -> Result<u32> {
        if let Some(length) = self.length {
            return Ok(length);
        }
        let rest = match used.checked_sub(1) {
            None => self.positions.first(),
            Some(last) => {
                let last = self.find(clusters.table(), storage, last, 1)?.cluster;
                let link = clusters.table().link(storage, last)?;
                if link != Link::End {
                    clusters.table().set_link(storage, last, Link::End)?;
                }
                if let Link::Next(next) = link { Some(next) } else { None }
            }
        };
        self.positions.truncate(used);
        self.length = Some(used);
        if let Some(rest) = rest {
            clusters.cut_off(rest);
        }
        Ok(used)
    }
}

/// Frees a chain, as far as it can be followed and at most `length_max` clusters.
///
/// # Errors
/// `EIO` for a table that cannot be read; `ENOMEM`.
pub(crate) fn free_chain(clusters: &mut Clusters, storage: &Storage, first: u32, length_max: u32) -> Result<()> {
    // A cluster is free once it was passed, so that a loop ends.
    let mut next = Some(first);
    let mut left = length_max;
    while let Some(cluster) = next.filter(|&cluster| left > 0 && storage.geometry().contains(cluster)) {
        let link = clusters.table().link(storage, cluster)?;
        next = if let Link::Next(next) = link { Some(next) } else { None };
        if matches!(link, Link::Free | Link::Bad) {
            break;
        }
        clusters.free(storage, &[Run { cluster, count: 1 }])?;
        left -= 1;
    }
    Ok(())
}

/// Returns the runs of the first `count` clusters of a chain, as far as it can be followed, and looks at no others: what is wrong with the
/// chain is left to a check.
///
/// # Errors
/// `EIO` for a table that cannot be read; `ENOMEM`.
pub(crate) fn leading_runs(table: &mut Table, storage: &Storage, first: u32, count: u32) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    let mut next = Some(first);
    for _ in 0..count {
        let Some(cluster) = next.filter(|&cluster| storage.geometry().contains(cluster)) else { break };
        let link = table.link(storage, cluster)?;
        if matches!(link, Link::Free | Link::Bad) {
            break;
        }
        Run::push(&mut runs, cluster);
        next = if let Link::Next(next) = link { Some(next) } else { None };
    }
    Ok(runs)
}

/// Returns the runs of a chain of at most `length_max` clusters. A chain that ends with a free or invalid link ends there.
fn follow(table: &mut Table, storage: &Storage, first: u32, length_max: u32) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    let mut length = 0;
    let mut next = first;
    while storage.geometry().contains(next) {
        let link = table.link(storage, next)?;
        if matches!(link, Link::Free | Link::Bad) {
            break;
        }
        if length == length_max {
            return Err(storage.damage("chain-loop", format_args!("the chain of cluster {first} is too long")));
        }
        length += 1;
        Run::push(&mut runs, next);
        match link {
            Link::Next(following) => next = following,
            _ => break,
        }
    }
    Ok(runs)
}
