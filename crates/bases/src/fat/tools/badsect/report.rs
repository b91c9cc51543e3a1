//! The report of a search for bad sectors.

use std::fmt;

use serde_json::{Value, json};

use crate::fat::tools::error::ToolError;
use crate::fat::tools::printable::printable;

/// Number of clusters, and of other parts, that are listed.
const LISTED_MAX: usize = 10_000;

/// What a cluster with a bad sector is used for, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadClusterUse {
    /// It was marked before.
    Marked,
    /// It is free, and marked if this is requested.
    Free,
    /// It belongs to this file or directory.
    Used(String),
    /// It belonged to this file or directory, which has another one now.
    Relocated(String, u32),
    /// It belongs to this file or directory, and no other one was found for it.
    NotRelocated(String, ToolError),
    /// It belongs to nothing though the table says that it is used.
    Lost,
}

/// The result of a search for bad sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadsectReport {
    /// Number of clusters with bad sectors.
    pub found: u64,
    /// Number of clusters that were marked.
    pub marked: u64,
    /// Number of bad clusters, and of bad sectors elsewhere, that something still uses or may use.
    pub left: u64,
    /// The first of the clusters with bad sectors.
    pub clusters: Vec<(u32, BadClusterUse)>,
    /// Bad sectors that are in no cluster: offset and length in bytes, and the name of the part.
    pub other: Vec<(u64, u64, &'static str)>,
}

impl BadClusterUse {
    /// Returns the description of the use.
    pub fn description(&self) -> String {
        match self {
            Self::Marked => "was marked before".into(),
            Self::Free => "is free".into(),
            Self::Used(path) => format!("belongs to {path}"),
            Self::Relocated(path, cluster) => format!("belonged to {path}, which has cluster {cluster} instead"),
            Self::NotRelocated(path, error) => format!("belongs to {path}, and cannot be replaced: {error}"),
            Self::Lost => "belongs to nothing".into(),
        }
    }
}

impl BadsectReport {
    /// Adds a cluster.
    pub(crate) fn list(&mut self, cluster: u32, usage: BadClusterUse) {
        if self.clusters.len() < LISTED_MAX {
            self.clusters.push((cluster, usage));
        }
    }

    /// Adds a part that is in no cluster.
    pub(crate) fn list_other(&mut self, offset: u64, length: u64, name: &'static str) {
        self.left += 1;
        if self.other.len() < LISTED_MAX {
            self.other.push((offset, length, name));
        }
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let cluster = |(cluster, usage): &(u32, BadClusterUse)| {
            let path = match usage {
                BadClusterUse::Used(path)
                | BadClusterUse::Relocated(path, _)
                | BadClusterUse::NotRelocated(path, _) => Some(path),
                _ => None,
            };
            json!({"cluster": cluster, "path": path, "description": usage.description()})
        };
        let part = |(offset, length, name): &(u64, u64, &'static str)| json!({"offset": offset, "length": length, "part": name});
        json!({
            "found": self.found,
            "marked": self.marked,
            "left": self.left,
            "clusters": self.clusters.iter().map(cluster).collect::<Vec<_>>(),
            "other": self.other.iter().map(part).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for BadsectReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (offset, length, name) in &self.other {
            writeln!(formatter, "bytes {offset} to {} of {name} are bad", offset + length)?;
        }
        for (cluster, usage) in &self.clusters {
            writeln!(formatter, "cluster {cluster} is bad; it {}", printable(&usage.description()))?;
        }
        writeln!(formatter, "{} bad clusters, {} marked", self.found, self.marked)
    }
}
