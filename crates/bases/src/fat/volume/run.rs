//! Runs: clusters that follow each other both in a file and on the disk.

/// Clusters with consecutive numbers, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first cluster.
    pub(crate) cluster: u32,
    /// Number of clusters.
    pub(crate) count: u32,
}

impl Run {
    /// Returns the last cluster.
    pub(crate) fn last(self) -> u32 {
        self.cluster + (self.count - 1)
    }

    /// Returns the numbers of the clusters.
    pub(crate) fn clusters(self) -> impl Iterator<Item = u32> {
        self.cluster..=self.last()
    }

    /// Adds a cluster to runs: to the last one if it continues that.
    pub(crate) fn push(runs: &mut Vec<Run>, cluster: u32) {
        match runs.last_mut() {
            Some(last) if last.last().checked_add(1) == Some(cluster) => last.count += 1,
            _ => runs.push(Run { cluster, count: 1 }),
        }
    }

    /// Returns the number of clusters in runs.
    pub(crate) fn total(runs: &[Run]) -> u32 {
        runs.iter().map(|run| run.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_clusters_are_one_run() {
        let mut runs = Vec::new();
        [5, 6, 7, 9, 8].into_iter().for_each(|cluster| Run::push(&mut runs, cluster));
        let expected = [(5, 3), (9, 1), (8, 1)].map(|(cluster, count)| Run { cluster, count });
        assert_eq!((&runs[..], Run::total(&runs)), (&expected[..], 5));
        assert_eq!(runs[0].clusters().collect::<Vec<_>>(), [5, 6, 7]);
    }
}
