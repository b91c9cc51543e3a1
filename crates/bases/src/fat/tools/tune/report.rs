//! The report of tuning: how fragmented the file system is and was.

use std::fmt;

use serde_json::{Value, json};

use crate::fat::tools::chain::Run;
use crate::fat::tools::cluster_map::ClusterMap;

/// How the clusters of files and the free ones are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Number of files and directories that have clusters.
    pub chains: u64,
    /// Number of those that are in more than one piece.
    pub fragmented: u64,
    /// Number of pieces of all.
    pub fragments: u64,
    /// Number of free clusters.
    pub free_clusters: u64,
    /// Number of pieces of free clusters.
    pub free_runs: u64,
    /// Number of clusters of the largest of them.
    pub largest_free_run: u64,
}

/// The result of tuning, or of its estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TuneReport {
    /// The distribution before.
    pub before: Fragmentation,
    /// The distribution afterwards; `None` of an estimate.
    pub after: Option<Fragmentation>,
    /// Number of clusters that were not where they should be.
    pub misplaced: u64,
    /// Number of clusters moved, some of them twice.
    pub moved: u64,
}

impl Fragmentation {
    /// Counts a chain, unless it is empty.
    pub(crate) fn count_chain(&mut self, chain: &[u32]) {
        let pieces = chain.chunk_by(|first, second| first.checked_add(1) == Some(*second)).count() as u64;
        self.chains += u64::from(pieces > 0);
        self.fragments += pieces;
        self.fragmented += u64::from(pieces > 1);
    }

    /// Counts the free clusters.
    pub(crate) fn count_free(&mut self, free: &ClusterMap) {
        let mut run: Option<Run> = None;
        for cluster in free.iter() {
            let continued = run.filter(|run| run.first.checked_add(run.length) == Some(cluster));
            let present =
                continued.map_or(Run { first: cluster, length: 1 }, |run| Run { length: run.length + 1, ..run });
            self.free_clusters += 1;
            self.free_runs += u64::from(continued.is_none());
            self.largest_free_run = self.largest_free_run.max(present.length.into());
            run = Some(present);
        }
    }

    fn to_json(self) -> Value {
        json!({
            "chains": self.chains,
            "fragmented": self.fragmented,
            "fragments": self.fragments,
            "free_clusters": self.free_clusters,
            "free_runs": self.free_runs,
            "largest_free_run": self.largest_free_run,
        })
    }
}

impl fmt::Display for Fragmentation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {} files and directories ", self.fragmented, self.chains)?;
        write!(formatter, "in more than one piece, {} pieces; ", self.fragments)?;
        write!(formatter, "{} free clusters in {} pieces, ", self.free_clusters, self.free_runs)?;
        write!(formatter, "the largest of {}", self.largest_free_run)
    }
}

impl TuneReport {
    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "before": self.before.to_json(),
            "after": self.after.map(Fragmentation::to_json),
            "misplaced": self.misplaced,
            "moved": self.moved,
        })
    }
}

impl fmt::Display for TuneReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "before: {}", self.before)?;
        match &self.after {
            Some(after) => writeln!(formatter, "after: {after}\n{} clusters moved", self.moved),
            None => writeln!(formatter, "{} clusters to be moved", self.misplaced),
        }
    }
}
