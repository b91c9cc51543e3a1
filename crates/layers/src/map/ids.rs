//! ID mappings of `map`: pairs, an offset, or one ID for all.

use crate::options::number;

/// The ID shown for IDs that cannot be mapped, like the kernel's overflow ID.
const OVERFLOW_ID: u32 = 65534;

/// Mapping of lower IDs to the IDs shown, and of given IDs to lower IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdMapping {
    /// ID shown for every lower ID.
    pub(crate) fixed: Option<u32>,
    /// Pairs of a lower ID and the ID shown for it.
    pub(crate) pairs: Vec<(u32, u32)>,
    /// Offset added to lower IDs.
    pub(crate) offset: i64,
}

impl IdMapping {
    /// Parses `BELOW/ABOVE[:BELOW/ABOVE]`, where each is a number or a name that `id` knows.
    ///
    /// # Errors
    /// Returns a description of what is expected instead.
    pub(crate) fn parse_pairs(list: &str, id: impl Fn(&str) -> Option<u32>) -> Result<Vec<(u32, u32)>, String> {
        let pairs: Option<Vec<(u32, u32)>> = list
            .split(':')
            .map(|pair| pair.split_once('/').and_then(|(below, above)| Some((id(below)?, id(above)?))))
            .collect();
        let pairs = pairs.ok_or("pairs such as alice/bob:1000/2000, of numbers or names that exist")?;
        let has_duplicates = pairs.iter().enumerate().any(|(index, (below, above))| {
            pairs[..index].iter().any(|(other_below, other_above)| other_below == below || other_above == above)
        });
        if has_duplicates { Err("each id at most once before and once behind a `/`".to_owned()) } else { Ok(pairs) }
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
        match self.pairs.iter().find(|(from, _)| *from == below) {
            Some((_, above)) => *above,
            None => shift(below, self.offset).unwrap_or(OVERFLOW_ID),
        }
    }

    /// Returns the lower ID that an ID given above refers to; `None` if there is none.
    pub(crate) fn to_lower(&self, above: u32) -> Option<u32> {
        match self.pairs.iter().find(|(_, to)| *to == above) {
            Some((below, _)) => Some(*below),
            None => shift(above, -self.offset),
        }
    }
}

/// Adds an offset to an ID. IDs end before the one with all bits set, which means "none".
fn shift(id: u32, offset: i64) -> Option<u32> {
    u32::try_from(i64::from(id) + offset).ok().filter(|id| *id != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_and_offsets_map_in_both_directions() {
        let number = |text: &str| text.parse().ok();
        let pairs = IdMapping { pairs: IdMapping::parse_pairs("1/2:2/1:5/6", number).unwrap(), ..IdMapping::default() };
        assert_eq!([1, 2, 5, 6, 7].map(|id| pairs.to_shown(id)), [2, 1, 6, 6, 7]);
        assert_eq!([1, 2, 6, 7].map(|id| pairs.to_lower(id)), [Some(2), Some(1), Some(5), Some(7)]);
        let offset = IdMapping { offset: 100_000, ..IdMapping::default() };
        assert_eq!((offset.to_shown(5), offset.to_lower(100_005), offset.to_lower(5)), (100_005, Some(5), None));
        assert_eq!(offset.to_shown(u32::MAX - 5), OVERFLOW_ID);
        assert!(
            IdMapping::parse_pairs("1/2:1/3", number).is_err() && IdMapping::parse_pairs("1/2:3/2", number).is_err()
        );
        assert!(IdMapping::parse_pairs("1", number).is_err() && IdMapping::parse_pairs("x/1", number).is_err());
    }
}
