//! The report of a check: findings, and what is in the file system; as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::problem::Problem;
use crate::fat::tools::chain::Run;
use crate::fat::tools::error::ToolError;
use crate::fat::tools::printable::printable;

/// What became of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// No repair exists.
    Impossible,
    /// The check only reports.
    Possible,
    /// Preening, or the answer, left it.
    Left,
    /// It is repaired.
    Done,
    /// The repair failed.
    Failed(ToolError),
}

/// A problem of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The problem.
    pub problem: Problem,
    /// Path of the object; `None` if it is the file system itself.
    pub path: Option<String>,
    /// The clusters concerned.
    pub clusters: Vec<Run>,
    /// What became of it.
    pub repair: Repair,
}

/// Number of findings of one code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FindingCount {
    /// Number of findings.
    pub found: u64,
    /// Number of those that are repaired.
    pub repaired: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// The findings in order, up to the limit of the options.
    pub findings: Vec<Finding>,
    /// The number of all findings by code.
    pub counts: BTreeMap<&'static str, FindingCount>,
    /// What is no problem of the file system, but may be one of systems that use it.
    pub notes: Vec<String>,
    /// Number of files.
    pub files: u64,
    /// Number of directories without the root.
    pub directories: u64,
    /// Number of clusters.
    pub clusters: u64,
    /// Number of clusters of files and directories.
    pub used_clusters: u64,
    /// Number of free clusters.
    pub free_clusters: u64,
    /// Number of clusters that must not be used.
    pub bad_clusters: u64,
}

impl FsckReport {
    /// Returns the number of findings.
    pub fn found(&self) -> u64 {
        self.counts.values().map(|count| count.found).sum()
    }

    /// Returns the number of findings that are not repaired.
    pub fn unrepaired(&self) -> u64 {
        self.counts.values().map(|count| count.found.saturating_sub(count.repaired)).sum()
    }

    /// Returns the exit code as fsck(8) defines it: 0 without findings, 1 if all are repaired, 4 if some are left.
    pub fn exit_code(&self) -> u8 {
        match (self.found(), self.unrepaired()) {
            (0, _) => 0,
            (_, 0) => 1,
            _ => 4,
        }
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let counts: BTreeMap<_, _> = self
            .counts
            .iter()
            .map(|(code, count)| (*code, json!({"found": count.found, "repaired": count.repaired})))
            .collect();
        json!({
            "findings": self.findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
            "counts": counts,
            "found": self.found(),
            "unrepaired": self.unrepaired(),
            "fsck_exit_code": self.exit_code(),
            "notes": self.notes,
            "files": self.files,
            "directories": self.directories,
            "clusters": self.clusters,
            "used_clusters": self.used_clusters,
            "free_clusters": self.free_clusters,
            "bad_clusters": self.bad_clusters,
        })
    }
}

impl Repair {
    /// Returns the word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Impossible => "impossible",
            Self::Possible => "possible",
            Self::Left => "left",
            Self::Done => "done",
            Self::Failed(_) => "failed",
        }
    }
}

impl Finding {
    /// Returns the finding as JSON.
    pub fn to_json(&self) -> Value {
        let clusters: Vec<Value> =
            self.clusters.iter().map(|run| json!({"first": run.first, "length": run.length})).collect();
        let error = match &self.repair {
            Repair::Failed(error) => Some(error.to_string()),
            _ => None,
        };
        json!({
            "code": self.problem.code(),
            "path": self.path,
            "description": self.problem.description(),
            "clusters": clusters,
            "repair": self.problem.repair_text(),
            "result": self.repair.name(),
            "error": error,
        })
    }
}

impl fmt::Display for Finding {
    /// Writes one line: object, description, code, and what became of it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref().unwrap_or("the file system");
        write!(formatter, "{} {} [{}]", printable(path), self.problem.description(), self.problem.code())?;
        if !self.clusters.is_empty() {
            write!(formatter, " (clusters {})", Run::text(&self.clusters))?;
        }
        let repair = self.problem.repair_text().unwrap_or("none");
        match &self.repair {
            Repair::Impossible => write!(formatter, "; no repair"),
            Repair::Possible => write!(formatter, "; repair: {repair}"),
            Repair::Left => write!(formatter, "; left; repair: {repair}"),
            Repair::Done => write!(formatter, "; repaired: {repair}"),
            Repair::Failed(error) => write!(formatter, "; the repair failed ({repair}): {error}"),
        }
    }
}

impl fmt::Display for FsckReport {
    /// Writes a line for each finding, and a summary.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(formatter, "{finding}")?;
        }
        let unlisted = self.found().saturating_sub(self.findings.len() as u64);
        if unlisted > 0 {
            writeln!(formatter, "and {unlisted} more findings")?;
        }
        for note in &self.notes {
            writeln!(formatter, "note: {note}")?;
        }
        writeln!(formatter, "{} findings, {} not repaired", self.found(), self.unrepaired())?;
        write!(formatter, "{} files, {} directories; ", self.files, self.directories)?;
        write!(formatter, "{} clusters: {} used, ", self.clusters, self.used_clusters)?;
        writeln!(formatter, "{} free, {} bad", self.free_clusters, self.bad_clusters)
    }
}
