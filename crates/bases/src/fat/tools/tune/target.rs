//! The places that chains are to have: one after the other from the first cluster on.

use std::ops::Range;

use crate::fat::tools::cluster_map::ClusterMap;

/// Assigns places to chains in order. Bad clusters leave gaps, which later short chains fill.
pub(crate) struct Targets<'a> {
    bad: &'a ClusterMap,
    /// First cluster that is not assigned and not in a gap.
    next: u32,
    end: u32,
    gaps: Vec<Range<u32>>,
}

/// Number of gaps that are remembered.
const GAPS_MAX: usize = 1024;

impl<'a> Targets<'a> {
    /// Begins with all clusters.
    pub(crate) fn new(clusters: Range<u32>, bad: &'a ClusterMap) -> Self {
        Self { bad, next: clusters.start, end: clusters.end, gaps: Vec::new() }
    }

    /// Returns the clusters for a chain of this length: neighbours, or if there are none, the first ones.
    pub(crate) fn assign(&mut self, length: u32) -> Vec<u32> {
        if let Some(gap) = self.gaps.iter_mut().find(|gap| gap.len() >= length as usize) {
            let clusters = gap.start..gap.start + length;
            gap.start = clusters.end;
            return clusters.collect();
        }
        let first = self.next;
        let mut start = first;
        while let Some(bad) = self.bad.next(start).filter(|&bad| u64::from(bad) < u64::from(start) + u64::from(length))
        {
            start = bad + 1;
        }
        if u64::from(start) + u64::from(length) > u64::from(self.end) {
            return self.assign_scattered(length);
        }
        self.remember_gaps(first..start);
        self.next = start + length;
        (start..self.next).collect()
    }

    /// Remembers the good clusters of a range.
    fn remember_gaps(&mut self, range: Range<u32>) {
        let mut start = range.start;
        while start < range.end && self.gaps.len() < GAPS_MAX {
            let end = self.bad.next(start).unwrap_or(range.end).min(range.end);
            if start < end {
                self.gaps.push(start..end);
            }
            start = end + 1;
        }
    }

    fn assign_scattered(&mut self, length: u32) -> Vec<u32> {
        self.remember_gaps(self.next..self.end);
        self.next = self.end;
        let mut clusters = Vec::new();
        for gap in &mut self.gaps {
            let missing = (length as usize).saturating_sub(clusters.len());
            let taken = gap.start..gap.start + (missing.min(gap.len()) as u32);
            gap.start = taken.end;
            clusters.extend(taken);
        }
        clusters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fat::format::{BOOT_SECTOR_SIZE, BootSector, Geometry};

    #[test]
    fn chains_are_placed_around_bad_clusters() {
        let boot = BootSector {
            bytes_per_sector: 512,
            sectors_per_cluster: 1,
            reserved_sectors: 1,
            fats: 1,
            root_entries: 16,
            total_sectors: 23,
            media: 0xF0,
            fat_sectors: 1,
            extended: None,
            ..BootSector::decode(&[0; BOOT_SECTOR_SIZE])
        };
        let geometry = Geometry::new(&boot, u64::MAX).unwrap();
        let mut bad = ClusterMap::new(&geometry);
        [5, 6, 12].into_iter().for_each(|cluster| _ = bad.insert(cluster));
        let mut targets = Targets::new(geometry.cluster_numbers(), &bad);
        assert_eq!(geometry.cluster_numbers(), 2..22);
        assert_eq!(targets.assign(2), [2, 3]);
        assert_eq!(targets.assign(4), [7, 8, 9, 10]);
        assert_eq!(targets.assign(1), [4]);
        assert_eq!(targets.assign(10), [11, 13, 14, 15, 16, 17, 18, 19, 20, 21]);
        assert!(targets.assign(1).is_empty());
    }
}
