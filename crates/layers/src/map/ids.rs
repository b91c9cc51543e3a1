//! ID mappings of `map`: ranges, an offset, or one ID for all.

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

/// Mapping of lower IDs to the IDs shown, and of given IDs to lower IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdMapping {
    /// ID shown for every lower ID.
    pub(crate) fixed: Option<u32>,
    /// Lower IDs with the IDs shown for them.
    pub(crate) ranges: Vec<IdRange>,
    /// Offset added to lower IDs.
    pub(crate) offset: i64,
}

impl IdMapping {
    /// Parses `BELOW/ABOVE[/COUNT][:BELOW/ABOVE…]`, where each ID is a number or a name that `id` knows.
    ///
    /// # Errors
    /// Returns a description of what is expected instead.
    pub(crate) fn parse_ranges(list: &str, id: impl Fn(&str) -> Option<u32>) -> Result<Vec<IdRange>, String> {
        let ranges: Option<Vec<IdRange>> = list.split(':').map(|range| IdRange::parse(range, &id)).collect();
        let ranges =
            ranges.ok_or("pairs such as alice/bob:1000/2000, of numbers or names that exist, or 0/100000/65536")?;
        let has_duplicates = ranges.iter().enumerate().any(|(index, range)| {
            let overlaps = |other: &IdRange| range.overlaps(*other) || range.reversed().overlaps(other.reversed());
            ranges[..index].iter().any(overlaps)
        });
        if has_duplicates { Err("each id at most once before and once behind a `/`".to_owned()) } else { Ok(ranges) }
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
        let shown = self.ranges.iter().find_map(|range| range.to_shown(below));
        shown.or_else(|| shift(below, self.offset)).unwrap_or(OVERFLOW_ID)
    }

    /// Returns the lower ID that an ID given above refers to; `None` if there is none.
    pub(crate) fn to_lower(&self, above: u32) -> Option<u32> {
        let below = self.ranges.iter().find_map(|range| range.reversed().to_shown(above));
        below.or_else(|| shift(above, -self.offset))
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
    fn no_id_is_mapped_twice() {
        for list in ["1/2:1/3", "1/2:3/2", "1", "x/1", "0/5/10:9/100", "0/5/10:20/14", "0/0/0", "1/1/4294967295"] {
            assert!(IdMapping::parse_ranges(list, number).is_err(), "{list}");
        }
    }
}
