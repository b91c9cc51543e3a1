//! The report of tuning: how fragmented the file system is and was.

use std::fmt;

use serde_json::{Value, json};

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
