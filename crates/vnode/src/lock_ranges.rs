//! The byte ranges that one owner has locked in one file: split and merged as fcntl(2) describes.

use crate::{Errno, LOCK_RANGES_MAX, Result};

/// A locked range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockRange<T> {
    /// The first byte.
    pub start: u64,
    /// The last byte, inclusive; `u64::MAX` for everything to the end.
    pub end: u64,
    /// State of the lock, defined by the user of this type.
    pub held: T,
}

/// Ranges of one owner in ascending order: none overlap, and adjacent ranges held alike are merged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockRanges<T>(Vec<LockRange<T>>);

impl<T> Default for LockRanges<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + PartialEq> LockRanges<T> {
    /// Returns the ranges with those from `start` to `end`, both inclusive, held as `held`, or released if `None`.
    /// Parts outside stay.
    ///
    /// # Errors
    /// `EINVAL` for a range that ends before it starts, `ENOLCK` if there were more than [`LOCK_RANGES_MAX`] ranges, and
    /// more than now.
    pub fn with(&self, start: u64, end: u64, held: Option<T>) -> Result<Self> {
        if end < start {
            return Err(Errno::EINVAL);
        }
        let first = self.0.partition_point(|range| range.end < start);
        let behind = self.0.partition_point(|range| range.start <= end);
        let cut = &self.0[first..behind];
        let before =
            cut.first().filter(|range| range.start < start).map(|range| LockRange { end: start - 1, ..*range });
        let after = cut.last().filter(|range| range.end > end).map(|range| LockRange { start: end + 1, ..*range });
        let new = [before, held.map(|held| LockRange { start, end, held }), after];
        let mut ranges = Vec::with_capacity(self.0.len() + 2);
        ranges.extend_from_slice(&self.0[..first]);
        new.into_iter().flatten().chain(self.0[behind..].iter().copied()).for_each(|range| add(&mut ranges, range));
        if ranges.len() > self.0.len().max(LOCK_RANGES_MAX) { Err(Errno::ENOLCK) } else { Ok(Self(ranges)) }
    }

    /// Returns the first range that overlaps the bytes from `start` to `end`, both inclusive, and satisfies
    /// `is_wanted`.
    pub fn find(&self, start: u64, end: u64, is_wanted: impl Fn(&T) -> bool) -> Option<&LockRange<T>> {
        let first = self.0.partition_point(|range| range.end < start);
        self.0[first..].iter().take_while(|range| range.start <= end).find(|range| is_wanted(&range.held))
    }

    /// Removes the ranges for which `is_kept` returns false.
    pub fn retain(&mut self, is_kept: impl Fn(&LockRange<T>) -> bool) {
        self.0.retain(is_kept);
    }

    /// Iterates over all ranges in ascending order.
    pub fn iter(&self) -> std::slice::Iter<'_, LockRange<T>> {
        self.0.iter()
    }

    /// Returns whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Appends a range after all others, merged with the last if that is adjacent and held alike.
fn add<T: PartialEq>(ranges: &mut Vec<LockRange<T>>, range: LockRange<T>) {
    match ranges.last_mut() {
        Some(last) if last.held == range.held && last.end.checked_add(1) == Some(range.start) => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranges: &[(u64, u64, char)]) -> LockRanges<char> {
        ranges.iter().fold(LockRanges::default(), |all, &(start, end, held)| all.with(start, end, Some(held)).unwrap())
    }

    #[test]
    fn ranges_are_cut_out_and_replaced() {
        assert_eq!(of(&[(0, 9, 'a')]).with(3, 5, None).unwrap(), of(&[(0, 2, 'a'), (6, 9, 'a')]));
        assert_eq!(of(&[(0, 9, 'a')]).with(0, u64::MAX, None).unwrap(), of(&[]));
        assert_eq!(of(&[(5, u64::MAX, 'a')]).with(7, 7, None).unwrap(), of(&[(8, u64::MAX, 'a'), (5, 6, 'a')]));
        assert_eq!(of(&[(0, 1, 'a'), (4, 6, 'a')]).with(2, 3, None).unwrap().len(), 2);
        assert_eq!(of(&[(0, 9, 'a')]).with(4, 5, Some('b')).unwrap().len(), 3);
        assert_eq!(of(&[(0, 9, 'a')]).with(5, 4, None), Err(Errno::EINVAL));
    }

    #[test]
    fn ranges_that_touch_and_are_held_alike_are_one() {
        let joined = of(&[(0, 9, 'a'), (20, 29, 'a'), (10, 19, 'a')]);
        assert_eq!(joined.iter().as_slice(), [LockRange { start: 0, end: 29, held: 'a' }]);
        assert_eq!(of(&[(0, 9, 'a'), (10, 19, 'b')]).len(), 2);
        assert_eq!(of(&[(10, u64::MAX, 'a'), (0, 9, 'a')]).len(), 1);
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let most = LOCK_RANGES_MAX as u64;
        let full = (0..most).fold(LockRanges::default(), |all, at| all.with(10 * at, 10 * at + 4, Some(())).unwrap());
        assert_eq!(full.with(10 * most, 10 * most, Some(())), Err(Errno::ENOLCK));
        // Releasing a part would leave two.
        assert_eq!(full.with(2, 2, None), Err(Errno::ENOLCK));
        assert_eq!(full.with(0, 4, None).unwrap().len(), LOCK_RANGES_MAX - 1);
        assert_eq!(full.with(0, u64::MAX, Some(())).unwrap().len(), 1);
    }
}
