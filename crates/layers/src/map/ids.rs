//! ID mappings of `map`: ranges, an offset, or one ID for all.

use std::collections::HashSet;

use crate::options::number;

/// The ID shown for IDs that cannot be mapped, like the kernel's overflow ID.
const OVERFLOW_ID: u32 = 65534;

/// Consecutive lower IDs, and the IDs shown for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRange {
    /// The first lower ID.
    below: u32,
    /// The ID shown for it.
    above: u32,
    /// Number of IDs.
    count: u32,
}

impl IdRange {
    /// Parses `BELOW/ABOVE` or `BELOW/ABOVE/COUNT`.
    fn parse(text: &str, id: impl Fn(&str) -> Option<u32>) -> Option<Self> {
        let mut words = text.splitn(3, '/');
        let (below, above) = (id(words.next()?)?, id(words.next()?)?);
        let count = words.next().map_or(Some(1), |count| count.parse().ok())?;
        // The ID with all bits set means "none".
        let fits = |first: u32| count > 0 && u64::from(first) + u64::from(count) <= u64::from(u32::MAX);
        (fits(below) && fits(above)).then_some(Self { below, above, count })
    }

    /// Returns the ID shown for a lower ID in the range.
    fn to_shown(self, below: u32) -> Option<u32> {
        below.checked_sub(self.below).filter(|position| *position < self.count).map(|position| self.above + position)
    }

    /// Returns the range of the other direction.
    fn reversed(self) -> Self {
        Self { below: self.above, above: self.below, count: self.count }
    }

    /// Returns whether both ranges have a lower ID in common.
    fn overlaps(self, other: Self) -> bool {
        self.to_shown(other.below).is_some() || other.to_shown(self.below).is_some()
    }
}

/// Ranges that map each ID at most once in each direction, for binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdRanges {
    /// The ranges by their lower IDs.
    by_lower: Vec<IdRange>,
    /// The same ranges reversed, by the IDs shown.
    by_shown: Vec<IdRange>,
    /// Whether an ID that no range maps is not shown as one that a range shows: the IDs of accounts of two systems have nothing
    /// to do with each other.
    is_exclusive: bool,
}

impl IdRanges {
    /// Returns `None` if an ID is mapped twice.
    fn new(ranges: Vec<IdRange>) -> Option<Self> {
        let ranges = Self::sorted(ranges);
        let has_duplicates = |ranges: &[IdRange]| ranges.windows(2).any(|pair| pair[0].overlaps(pair[1]));
        (!has_duplicates(&ranges.by_lower) && !has_duplicates(&ranges.by_shown)).then_some(ranges)
    }

    fn sorted(mut by_lower: Vec<IdRange>) -> Self {
        let mut by_shown: Vec<IdRange> = by_lower.iter().map(|range| range.reversed()).collect();
        by_lower.sort_by_key(|range| range.below);
        by_shown.sort_by_key(|range| range.below);
        Self { by_lower, by_shown, is_exclusive: false }
    }

    /// Returns the ranges with pairs of lower and shown IDs added, except those of which either ID is mapped already.
    pub(crate) fn with_pairs(self, pairs: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let (mut lower_ids, mut shown_ids) = (HashSet::new(), HashSet::new());
        let given = self.by_lower.len();
        let mut ranges = self.by_lower.clone();
        for (below, above) in pairs {
            let is_mapped = find(&self.by_lower, below).is_some() || find(&self.by_shown, above).is_some();
            if !is_mapped && !lower_ids.contains(&below) && !shown_ids.contains(&above) {
                lower_ids.insert(below);
                shown_ids.insert(above);
                ranges.push(IdRange { below, above, count: 1 });
            }
        }
        let is_exclusive = ranges.len() > given;
        Self { is_exclusive, ..Self::sorted(ranges) }
    }
}

/// Returns the ID that sorted ranges map an ID to.
fn find(ranges: &[IdRange], id: u32) -> Option<u32> {
    let after = ranges.partition_point(|range| range.below <= id);
    ranges[..after].last()?.to_shown(id)
}

/// Mapping of lower IDs to the IDs shown, and of given IDs to lower IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdMapping {
    /// ID shown for every lower ID.
    pub(crate) fixed: Option<u32>,
    /// Lower IDs with the IDs shown for them.
    pub(crate) ranges: IdRanges,
    /// Offset added to lower IDs.
    pub(crate) offset: i64,
}

impl IdMapping {
    /// Parses `BELOW/ABOVE[/COUNT][:BELOW/ABOVE…]`, where each ID is a number or a name that `id` knows.
    ///
    /// # Errors
    /// Returns a description of what is expected instead.
    pub(crate) fn parse_ranges(list: &str, id: impl Fn(&str) -> Option<u32>) -> Result<IdRanges, String> {
        let ranges: Option<Vec<IdRange>> = list.split(':').map(|range| IdRange::parse(range, &id)).collect();
        let ranges =
            ranges.ok_or("pairs such as alice/bob:1000/2000, of numbers or names that exist, or 0/100000/65536")?;
        IdRanges::new(ranges).ok_or_else(|| "each id at most once before and once behind a `/`".to_owned())
    }

    /// Parses an offset.
    ///
    /// # Errors
    /// Returns a description of what is expected instead.
    pub(crate) fn parse_offset(text: &str) -> Result<i64, String> {
        match number::<i64>(text) {
            Ok(offset) if offset.unsigned_abs() <= u64::from(u32::MAX) => Ok(offset),
            _ => Err("a number that ids can differ by, such as 100000 or -100000".to_owned()),
        }
    }

    /// Returns whether every ID is shown unchanged.
    pub(crate) fn is_identity(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the ID shown for a lower ID.
    pub(crate) fn to_shown(&self, below: u32) -> u32 {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let ranges = &self.ranges;
        let is_free = |id: &u32| !ranges.is_exclusive || find(&ranges.by_shown, *id).is_none();
        let unmapped = || shift(below, self.offset).filter(is_free);
        find(&ranges.by_lower, below).or_else(unmapped).unwrap_or(OVERFLOW_ID)
    }

    /// Returns the lower ID that an ID given above refers to; `None` if there is none.
    pub(crate) fn to_lower(&self, above: u32) -> Option<u32> {
        let ranges = &self.ranges;
        let is_free = |id: &u32| !ranges.is_exclusive || find(&ranges.by_lower, *id).is_none();
        find(&ranges.by_shown, above).or_else(|| shift(above, -self.offset).filter(is_free))
    }
}

/// Adds an offset to an ID. IDs end before the one with all bits set, which means "none".
fn shift(id: u32, offset: i64) -> Option<u32> {
    u32::try_from(i64::from(id) + offset).ok().filter(|id| *id != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<u32> {
        text.parse().ok()
    }

    #[test]
    fn pairs_and_offsets_map_in_both_directions() {
        let ranges = IdMapping::parse_ranges("1/2:2/1:5/6", number).unwrap();
        let pairs = IdMapping { ranges, ..IdMapping::default() };
        assert_eq!([1, 2, 5, 6, 7].map(|id| pairs.to_shown(id)), [2, 1, 6, 6, 7]);
        assert_eq!([1, 2, 6, 7].map(|id| pairs.to_lower(id)), [Some(2), Some(1), Some(5), Some(7)]);
        let offset = IdMapping { offset: 100_000, ..IdMapping::default() };
        assert_eq!((offset.to_shown(5), offset.to_lower(100_005), offset.to_lower(5)), (100_005, Some(5), None));
        assert_eq!(offset.to_shown(u32::MAX - 5), OVERFLOW_ID);
    }

    #[test]
    fn ranges_map_each_id_to_the_one_at_its_position() {
        let ranges = IdMapping::parse_ranges("0/1000:1/100000/65536", number).unwrap();
        let users = IdMapping { ranges, ..IdMapping::default() };
        assert_eq!([0, 1, 65_536, 65_537].map(|id| users.to_shown(id)), [1000, 100_000, 165_535, 65_537]);
        assert_eq!([1000, 100_000, 165_535].map(|id| users.to_lower(id)), [Some(0), Some(1), Some(65_536)]);
    }

    #[test]
    fn pairs_of_accounts_give_way_to_those_that_are_given() {
        let ranges = IdMapping::parse_ranges("1/10:2/20", number).unwrap();
        let ranges = ranges.with_pairs([(1, 11), (3, 20), (3, 30), (3, 31), (4, 30), (4, 40)]);
        let users = IdMapping { ranges, ..IdMapping::default() };
        assert_eq!([1, 2, 3, 4].map(|id| users.to_shown(id)), [10, 20, 30, 40]);
        assert_eq!([10, 20, 30, 40].map(|id| users.to_lower(id)), [Some(1), Some(2), Some(3), Some(4)]);
        // The accounts of one system are not those of the other that have their ids.
        assert_eq!([10, 40, 50].map(|id| users.to_shown(id)), [OVERFLOW_ID, OVERFLOW_ID, 50]);
        assert_eq!([1, 4, 50].map(|id| users.to_lower(id)), [None, None, Some(50)]);
    }

    #[test]
    fn no_id_is_mapped_twice() {
        for list in ["1/2:1/3", "1/2:3/2", "1", "x/1", "0/5/10:9/100", "0/5/10:20/14", "0/0/0", "1/1/4294967295"] {
            assert!(IdMapping::parse_ranges(list, number).is_err(), "{list}");
        }
    }
}
