//! Value ranges, as far as they are known at compile time.

use crate::code::Integer;

/// A range of integers, both bounds inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl Range {
    /// The full range: nothing is known.
    pub(crate) const FULL: Range = Range { low: i64::MIN, high: i64::MAX };
    /// Results of comparisons.
    pub(crate) const TRUTH: Range = Range { low: 0, high: 1 };
    /// Maximum step of a pointer at a time: see [`crate::memory::offset`].
    pub(crate) const STEP: Range = Range { low: -(1 << 31), high: (1 << 31) - 1 };

    /// The range of a single value.
    pub(crate) const fn exactly(value: i64) -> Range {
        Range { low: value, high: value }
    }

    /// The values of a type.
    pub(crate) const fn of(integer: Integer) -> Range {
        let bits = integer.bytes as u32 * 8;
        match (bits, integer.is_unsigned) {
            (64, _) => Range::FULL,
            (_, true) => Range { low: 0, high: (1 << bits) - 1 },
            (_, false) => Range { low: -(1 << (bits - 1)), high: (1 << (bits - 1)) - 1 },
        }
    }

    /// The smallest range that covers both.
    pub(crate) fn or(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Returns whether all of it is within another.
    pub(crate) fn is_within(self, other: Range) -> bool {
        self.low >= other.low && self.high <= other.high
    }

    /// Returns whether it contains a value.
    pub(crate) fn contains(self, value: i64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns the value, if there is only one.
    pub(crate) fn known(self) -> Option<i64> {
        (self.low == self.high).then_some(self.low)
    }

    /// Returns whether none of it is negative.
    pub(crate) fn is_natural(self) -> bool {
        self.low >= 0
    }

    /// The range from the least to the greatest of these numbers, if all fit in 64 bits; otherwise the full range.
    fn spanning(numbers: &[i128]) -> Range {
        let (low, high) = (numbers.iter().min(), numbers.iter().max());
        let fit = |number: Option<&i128>| number.and_then(|number| i64::try_from(*number).ok());
        match (fit(low), fit(high)) {
            (Some(low), Some(high)) => Range { low, high },
            _ => Range::FULL,
        }
    }

    /// The range of a sum.
    pub(crate) fn plus(self, other: Range) -> Range {
        Range::spanning(&[i128::from(self.low) + i128::from(other.low), i128::from(self.high) + i128::from(other.high)])
    }

    /// The range of a difference.
    pub(crate) fn minus(self, other: Range) -> Range {
        Range::spanning(&[i128::from(self.low) - i128::from(other.high), i128::from(self.high) - i128::from(other.low)])
    }

    /// The range of a product.
    pub(crate) fn times(self, other: Range) -> Range {
        let product = |one: i64, other: i64| i128::from(one) * i128::from(other);
        Range::spanning(&[
            product(self.low, other.low),
            product(self.low, other.high),
            product(self.high, other.low),
            product(self.high, other.high),
        ])
    }

    /// The range of a bitwise operation: as many bits as the wider operand has.
    pub(crate) fn bitwise(self, other: Range) -> Range {
        let both = self.or(other);
        let bits = 64 - (both.low ^ both.low >> 63).leading_zeros().min((both.high ^ both.high >> 63).leading_zeros());
        if bits > 62 {
            return Range::FULL;
        }
        Range { low: if both.is_natural() { 0 } else { -(1 << bits) }, high: (1 << bits) - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_all_computed_values() {
        let (one, other) = (Range { low: -3, high: 5 }, Range { low: 2, high: 7 });
        assert_eq!((one.plus(other), one.minus(other)), (Range { low: -1, high: 12 }, Range { low: -10, high: 3 }));
        assert_eq!((one.times(other), one.bitwise(other)), (Range { low: -21, high: 35 }, Range { low: -8, high: 7 }));
        assert_eq!(other.bitwise(other), Range { low: 0, high: 7 });
        assert_eq!(Range::FULL.plus(one), Range::FULL);
        assert_eq!(Range::exactly(i64::MIN).times(Range::exactly(-1)), Range::FULL);
        assert_eq!(Range::of(Integer::BYTE), Range { low: 0, high: 255 });
        assert!(Range::of(Integer::INT).is_within(Range::STEP));
    }
}
