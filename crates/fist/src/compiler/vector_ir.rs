//! Vector IR: computations on sixteen bytes at a time, of values of which only the lowest byte is needed.
//!
//! Lanes are bytes. The lowest byte of a sum depends only on the lowest bytes of its operands, so sums and the like may
//! overflow a lane; operands of comparisons, divisions and right shifts must fit into one, as their ranges have to
//! prove.

use cranelift_codegen::ir::condcodes::IntCC;

use super::integers::{masked, quotient};
use super::range::Range;
use crate::code::{Comparison, Integer, Operator, Register};

/// A quotient of up to this value is computed by comparisons.
const MAX_COMPARED_QUOTIENT: i64 = 3;

/// A vector expression, with one value per lane. True comparisons have all bits set.
#[derive(Clone, Debug)]
pub(crate) enum VectorExpression {
    /// A constant in every lane.
    Constant(i64),
    /// The value of a register of the enclosing function, in every lane.
    Register(Register),
    /// The loop counter: one more in each lane.
    Counter,
    /// Bytes read, by the index of the access.
    Read(usize),
    /// Table entries, one index per lane: the index of the table.
    TableLookup(usize, Box<VectorExpression>),
    /// A value computed before, by its index.
    Computed(usize),
    /// A binary operation: Add, Subtract, And, Or or Xor.
    Binary(Operator, Box<VectorExpression>, Box<VectorExpression>),
    /// A left shift, or an arithmetic or logical right shift.
    Shift(ShiftKind, Box<VectorExpression>, i64),
    Compare(IntCC, Box<VectorExpression>, Box<VectorExpression>),
    Not(Box<VectorExpression>),
    Select(Box<VectorExpression>, Box<VectorExpression>, Box<VectorExpression>),
}

impl VectorExpression {
    /// Returns whether it is available without computing anything.
    pub(crate) fn is_available(&self) -> bool {
        matches!(self, VectorExpression::Constant(_) | VectorExpression::Register(_) | VectorExpression::Computed(_))
    }
}

/// The kinds of lane shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShiftKind {
    Left,
    Right,
    RightSigned,
}

/// A vector expression, and the range of the values whose lowest bytes it holds.
pub(crate) type RangedVector = (VectorExpression, Range);

pub(crate) const UNSIGNED: Range = Range { low: 0, high: 255 };
const SIGNED: Range = Range { low: -128, high: 127 };

/// Applies an operator to two integers of a type. Operands of a multiplication or division are available without
/// computing.
pub(crate) fn binary(
    operator: Operator,
    integer: Integer,
    one: RangedVector,
    other: RangedVector,
) -> Option<RangedVector> {
    let range = match operator {
        Operator::Add => one.1.plus(other.1),
        Operator::Subtract => one.1.minus(other.1),
        Operator::And => masked(one.1, other.1),
        Operator::Or | Operator::Xor => one.1.bitwise(other.1),
        Operator::ShiftLeft | Operator::ShiftRight => {
            let bits = other.1.known()? & (i64::from(integer.bytes) * 8 - 1);
            if operator == Operator::ShiftRight && integer.is_unsigned && !one.1.is_natural() {
                return None;
            }
            let (vector, range) = shift_constant(operator, one, bits)?;
            return Some((vector, wrap_range(range, integer)));
        }
        Operator::Divide | Operator::Remainder => {
            let (vector, range) = divide_by_constant(operator, one, other.1.known()?)?;
            return Some((vector, wrap_range(range, integer)));
        }
        Operator::Multiply => {
            let range = one.1.times(other.1);
            return Some((multiply(one, other)?, wrap_range(range, integer)));
        }
    };
    Some((VectorExpression::Binary(operator, Box::new(one.0), Box::new(other.0)), wrap_range(range, integer)))
}

pub(crate) fn wrap_range(range: Range, integer: Integer) -> Range {
    let bounds = Range::of(integer);
    if range.is_within(bounds) { range } else { bounds }
}

pub(crate) fn select(mask: VectorExpression, then: RangedVector, otherwise: RangedVector) -> RangedVector {
    (VectorExpression::Select(Box::new(mask), Box::new(then.0), Box::new(otherwise.0)), then.1.or(otherwise.1))
}

/// Narrows a range by a comparison with a constant that holds, or that does not.
pub(crate) fn narrow_range(range: Range, comparison: Comparison, bound: i64, holds: bool) -> Range {
    let (low, high) = match (comparison, holds) {
        (Comparison::Equal, true) | (Comparison::NotEqual, false) => (bound, bound),
        (Comparison::Less, true) | (Comparison::GreaterOrEqual, false) => (i64::MIN, bound.saturating_sub(1)),
        (Comparison::LessOrEqual, true) | (Comparison::Greater, false) => (i64::MIN, bound),
        (Comparison::Greater, true) | (Comparison::LessOrEqual, false) => (bound.saturating_add(1), i64::MAX),
        (Comparison::GreaterOrEqual, true) | (Comparison::Less, false) => (bound, i64::MAX),
        _ => return range,
    };
    let narrow = Range { low: range.low.max(low), high: range.high.min(high) };
    // Code under a condition that never holds needs no range.
    if narrow.low > narrow.high { range } else { narrow }
}

pub(crate) fn compare(comparison: Comparison, one: RangedVector, other: RangedVector) -> Option<VectorExpression> {
    let both = one.1.or(other.1);
    let is_signed = !both.is_within(UNSIGNED);
    if is_signed && !both.is_within(SIGNED) {
        return None;
    }
    let how = super::values::condition(comparison, Integer { bytes: 1, is_unsigned: !is_signed });
    Some(VectorExpression::Compare(how, Box::new(one.0), Box::new(other.0)))
}

/// A product with a constant, of which at most eight bits are significant.
fn multiply(one: RangedVector, other: RangedVector) -> Option<VectorExpression> {
    let (vector, by) = match (one.1.known(), other.1.known()) {
        (_, Some(by)) => (one.0, by),
        (Some(by), None) => (other.0, by),
        (None, None) => return None,
    };
    let parts = (0..8).filter(|bit| by >> bit & 1 != 0).map(|bit| match bit {
        0 => vector.clone(),
        bit => VectorExpression::Shift(ShiftKind::Left, Box::new(vector.clone()), bit),
    });
    let sum = parts.reduce(|sum, part| VectorExpression::Binary(Operator::Add, Box::new(sum), Box::new(part)));
    Some(sum.unwrap_or(VectorExpression::Constant(0)))
}

fn shift_constant(operator: Operator, (vector, range): RangedVector, bits: i64) -> Option<RangedVector> {
    if operator == Operator::ShiftLeft {
        let bounds = if bits < 32 { range.times(Range::exactly(1 << bits)) } else { Range::FULL };
        return Some(match bits {
            0..8 => (VectorExpression::Shift(ShiftKind::Left, Box::new(vector), bits), bounds),
            _ => (VectorExpression::Constant(0), bounds),
        });
    }
    let bounds = Range { low: range.low >> bits, high: range.high >> bits };
    let shift = match range {
        _ if range.is_within(UNSIGNED) => ShiftKind::Right,
        _ if range.is_within(SIGNED) => ShiftKind::RightSigned,
        _ => return None,
    };
    Some(match (shift, bits) {
        (ShiftKind::Right, 8..) => (VectorExpression::Constant(0), bounds),
        _ => (VectorExpression::Shift(shift, Box::new(vector), bits.min(7)), bounds),
    })
}

/// A quotient or remainder of a non-negative value that is available without computing, by a constant.
fn divide_by_constant(operator: Operator, (vector, range): RangedVector, by: i64) -> Option<RangedVector> {
    if by <= 0 || !range.is_natural() {
        return None;
    }
    let bounds = quotient(range, Range::exactly(by), operator);
    let boxed = Box::new;
    let is_power = by & (by - 1) == 0 && by <= 256;
    match operator {
        // This needs no more than the lowest byte.
        Operator::Remainder if is_power => {
            return Some((
                VectorExpression::Binary(Operator::And, boxed(vector), boxed(VectorExpression::Constant(by - 1))),
                bounds,
            ));
        }
        Operator::Divide if is_power && by < 256 && range.is_within(UNSIGNED) => {
            return Some((
                VectorExpression::Shift(ShiftKind::Right, boxed(vector), by.trailing_zeros().into()),
                bounds,
            ));
        }
        _ => {}
    }
    if !range.is_within(UNSIGNED) || range.high / by > MAX_COMPARED_QUOTIENT {
        return None;
    }
    // A true comparison is -1.
    let (mut result, step) = match operator {
        Operator::Divide => (VectorExpression::Constant(0), VectorExpression::Constant(-1)),
        _ => (vector.clone(), VectorExpression::Constant(by)),
    };
    for count in 1..=range.high / by {
        let least = boxed(VectorExpression::Constant(by * count));
        let is_reached = VectorExpression::Compare(IntCC::UnsignedGreaterThanOrEqual, boxed(vector.clone()), least);
        let subtrahend = VectorExpression::Binary(Operator::And, boxed(is_reached), boxed(step.clone()));
        result = VectorExpression::Binary(Operator::Subtract, boxed(result), boxed(subtrahend));
    }
    Some((result, bounds))
}
