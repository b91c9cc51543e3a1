//! A bit for each cluster.

use crate::fat::format::Geometry;

const BITS: u32 = u64::BITS;

/// A set of clusters of one file system. Clusters that do not exist are never in it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterMap {
    words: Vec<u64>,
    end: u32,
}

impl ClusterMap {
    /// Returns an empty set.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let end = geometry.cluster_numbers().end;
        Self { words: vec![0; end.div_ceil(BITS) as usize], end }
    }

    fn place(cluster: u32) -> (usize, u64) {
        ((cluster / BITS) as usize, 1 << (cluster % BITS))
    }

    /// Returns whether a cluster is in the set.
    pub(crate) fn contains(&self, cluster: u32) -> bool {
        let (index, bit) = Self::place(cluster);
        self.words.get(index).is_some_and(|word| word & bit != 0)
    }

    /// Adds a cluster. Returns whether it was not in the set.
    pub(crate) fn insert(&mut self, cluster: u32) -> bool {
        let (index, bit) = Self::place(cluster);
        match self.words.get_mut(index) {
            Some(word) if cluster < self.end => {
                let is_new = *word & bit == 0;
                *word |= bit;
                is_new
            }
            _ => false,
        }
    }

    /// Removes a cluster.
    pub(crate) fn remove(&mut self, cluster: u32) {
        let (index, bit) = Self::place(cluster);
        if let Some(word) = self.words.get_mut(index) {
            *word &= !bit;
        }
    }

    /// Returns the number of clusters.
    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns the first cluster in the set that is not before `from`.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let (first, _) = Self::place(from);
        let before = |cluster: u32| (1_u64 << (cluster % BITS)) - 1;
        let head = self.words.get(first).map(|word| word & !before(from)).filter(|&word| word != 0);
        let found = |index: usize, word: u64| index as u32 * BITS + word.trailing_zeros();
        if let Some(word) = head {
            return Some(found(first, word));
        }
        let rest = self.words.iter().enumerate().skip(first + 1);
        rest.into_iter().find(|(_, word)| **word != 0).map(|(index, word)| found(index, *word))
    }

    /// Returns the clusters in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter_from(0)
    }

    /// Returns the clusters that are not before `from`, in ascending order.
    pub(crate) fn iter_from(&self, mut from: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::from_fn(move || {
            let found = self.next(from)?;
            from = found + 1;
            Some(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn map_is_a_set() {
        let mut map = ClusterMap { words: vec![0; 16], end: 1000 };
        let mut set = BTreeSet::new();
        for step in 0..2000_u32 {
            let cluster = step.wrapping_mul(2_654_435_761) % 1000;
            if step % 3 == 0 {
                map.remove(cluster);
                set.remove(&cluster);
            } else {
                assert_eq!(map.insert(cluster), set.insert(cluster));
            }
        }
        assert!(map.iter().eq(set.iter().copied()));
        assert_eq!(map.count(), set.len() as u64);
        assert!((0..1100).all(|cluster| map.contains(cluster) == set.contains(&cluster)));
        assert!((0..1100).all(|cluster| map.next(cluster) == set.range(cluster..).next().copied()));
        assert!(!map.insert(1000) && !map.contains(u32::MAX) && map.next(u32::MAX).is_none());
    }
}
