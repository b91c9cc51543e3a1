//! Chains of clusters, as far as they are sound.

use super::error::ToolError;
use super::volume::Volume;
use crate::fat::format::Link;

/// Neighbouring clusters that follow each other in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first cluster.
    pub first: u32,
    /// Number of clusters.
    pub length: u32,
}

impl Run {
    /// Appends a cluster to the runs of a chain.
    pub(crate) fn append(runs: &mut Vec<Self>, cluster: u32) {
        match runs.last_mut() {
            Some(last) if last.first.checked_add(last.length) == Some(cluster) => last.length += 1,
            _ => runs.push(Self { first: cluster, length: 1 }),
        }
    }

    /// Returns runs as text: `5-9 12`.
    pub fn text(runs: &[Self]) -> String {
        let one = |run: &Self| match run.length {
            0 | 1 => run.first.to_string(),
            length => format!("{}-{}", run.first, run.first.saturating_add(length - 1)),
        };
        runs.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

/// How a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainEnd {
    /// As it should, with a mark.
    Marked,
    /// With a cluster that is free.
    Free(u32),
    /// With a cluster that must not be used.
    Bad(u32),
    /// With a link to a cluster that does not exist.
    Missing(u32),
    /// With a link back into the chain, or into another one, after as many clusters as exist.
    Endless,
}

impl Volume {
    /// Returns what follows a cluster of a chain: another cluster that is in use, or how the chain ends.
    pub(crate) fn follow(&mut self, link: Link) -> Result<Result<u32, ChainEnd>, ToolError> {
        let next = match link {
            Link::Next(next) if self.geometry.contains(next) => next,
            Link::Next(next) => return Ok(Err(ChainEnd::Missing(next))),
            // No cluster says so of another one.
            Link::End | Link::Free | Link::Bad => return Ok(Err(ChainEnd::Marked)),
        };
        Ok(match self.table.get(next)? {
            Link::Free => Err(ChainEnd::Free(next)),
            Link::Bad => Err(ChainEnd::Bad(next)),
            _ => Ok(next),
        })
    }

    /// Returns the clusters of a chain from its first one, at most `limit` of them, and how it ends.
    pub(crate) fn chain(&mut self, first: u32, limit: u32) -> Result<(Vec<u32>, ChainEnd), ToolError> {
        let mut clusters = Vec::new();
        let mut next = self.follow(Link::Next(first))?;
        while let Ok(cluster) = next {
            if clusters.len() >= limit.min(self.geometry.clusters()) as usize {
                return Ok((clusters, ChainEnd::Endless));
            }
            clusters.push(cluster);
            let link = self.table.get(cluster)?;
            next = self.follow(link)?;
        }
        Ok((clusters, next.err().unwrap_or(ChainEnd::Marked)))
    }

    /// Returns a whole chain.
    ///
    /// # Errors
    /// [`ToolError::Inconsistent`] unless it ends as it should.
    pub(crate) fn sound_chain(&mut self, first: u32) -> Result<Vec<u32>, ToolError> {
        match self.chain(first, u32::MAX)? {
            (clusters, ChainEnd::Marked) => Ok(clusters),
            _ => Err(ToolError::Inconsistent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_make_runs() {
        let mut runs = Vec::new();
        [5, 6, 7, 12, 3, 4, u32::MAX].into_iter().for_each(|cluster| Run::append(&mut runs, cluster));
        assert_eq!(Run::text(&runs), "5-7 12 3-4 4294967295");
    }
}
