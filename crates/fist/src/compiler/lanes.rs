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
const QUOTIENT_MAX: i64 = 3;

/// A vector expression, with one value per lane. True comparisons have all bits set.
#[derive(Clone, Debug)]
pub(crate) enum Lane {
    /// A constant in every lane.
    Constant(i64),
    /// The value of a register of the enclosing function, in every lane.
    Register(Register),
    /// The loop counter: one more in each lane.
    Counter,
    /// Bytes read, by the index of the access.
    Read(usize),
    /// Table entries, one index per lane: the index of the table.
    Looked(usize, Box<Lane>),
    /// A value computed before, by its index.
    Computed(usize),
    /// A binary operation: Add, Subtract, And, Or or Xor.
    Both(Operator, Box<Lane>, Box<Lane>),
    /// A left shift, or an arithmetic or logical right shift.
    Shifted(Shift, Box<Lane>, i64),
    Compared(IntCC, Box<Lane>, Box<Lane>),
    Inverted(Box<Lane>),
    Chosen(Box<Lane>, Box<Lane>, Box<Lane>),
}

impl Lane {
    /// Returns whether it is available without computing anything.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self, Lane::Constant(_) | Lane::Register(_) | Lane::Computed(_))
    }
}

/// The kinds of lane shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    Left,
    Right,
    RightSigned,
}

/// A vector expression, and the range of the values whose lowest bytes it holds.
pub(crate) type Known = (Lane, Range);

pub(crate) const UNSIGNED: Range = Range { low: 0, high: 255 };
const SIGNED: Range = Range { low: -128, high: 127 };

/// Applies an operator to two integers of a type. Operands of a multiplication or division are available without
/// computing.
pub(crate) fn computed(operator: Operator, integer: Integer, one: Known, other: Known) -> Option<Known> {
    let range = match operator {
        Operator::Add => one.1.plus(other.1),
        Operator::Subtract => one.1.minus(other.1),
        Operator::And => masked(one.1, other.1),
        Operator::Or | Operator::Xor => one.1.bitwise(other.1),
        Operator::ShiftLeft | Operator::ShiftRight => {
            let places = other.1.known()? & (i64::from(integer.bytes) * 8 - 1);
            if operator == Operator::ShiftRight && integer.is_unsigned && !one.1.is_natural() {
                return None;
            }
            let (lane, range) = shifted(operator, one, places)?;
            return Some((lane, wrapped(range, integer)));
        }
        Operator::Divide | Operator::Remainder => {
            let (lane, range) = divided(operator, one, other.1.known()?)?;
            return Some((lane, wrapped(range, integer)));
        }
        Operator::Multiply => {
            let range = one.1.times(other.1);
            return Some((multiplied(one, other)?, wrapped(range, integer)));
        }
    };
    Some((Lane::Both(operator, Box::new(one.0), Box::new(other.0)), wrapped(range, integer)))
}

pub(crate) fn wrapped(range: Range, integer: Integer) -> Range {
    let bounds = Range::of(integer);
    if range.is_within(bounds) { range } else { bounds }
}

pub(crate) fn chosen(mask: Lane, then: Known, otherwise: Known) -> Known {
    (Lane::Chosen(Box::new(mask), Box::new(then.0), Box::new(otherwise.0)), then.1.or(otherwise.1))
}

/// Narrows a range by a comparison with a constant that holds, or that does not.
pub(crate) fn narrowed(range: Range, comparison: Comparison, bound: i64, holds: bool) -> Range {
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

pub(crate) fn compared(comparison: Comparison, one: Known, other: Known) -> Option<Lane> {
    let both = one.1.or(other.1);
    let is_signed = !both.is_within(UNSIGNED);
    if is_signed && !both.is_within(SIGNED) {
        return None;
    }
    let how = super::values::condition(comparison, Integer { bytes: 1, is_unsigned: !is_signed });
    Some(Lane::Compared(how, Box::new(one.0), Box::new(other.0)))
}

/// A product with a constant, of which at most eight bits are significant.
fn multiplied(one: Known, other: Known) -> Option<Lane> {
    let (lane, by) = match (one.1.known(), other.1.known()) {
        (_, Some(by)) => (one.0, by),
        (Some(by), None) => (other.0, by),
        (None, None) => return None,
    };
    let parts = (0..8).filter(|bit| by >> bit & 1 != 0).map(|bit| match bit {
        0 => lane.clone(),
        bit => Lane::Shifted(Shift::Left, Box::new(lane.clone()), bit),
    });
    let sum = parts.reduce(|sum, part| Lane::Both(Operator::Add, Box::new(sum), Box::new(part)));
    Some(sum.unwrap_or(Lane::Constant(0)))
}

fn shifted(operator: Operator, (lane, range): Known, places: i64) -> Option<Known> {
    if operator == Operator::ShiftLeft {
        let bounds = if places < 32 { range.times(Range::exactly(1 << places)) } else { Range::FULL };
        return Some(match places {
            0..8 => (Lane::Shifted(Shift::Left, Box::new(lane), places), bounds),
            _ => (Lane::Constant(0), bounds),
        });
    }
    let bounds = Range { low: range.low >> places, high: range.high >> places };
    let shift = match range {
        _ if range.is_within(UNSIGNED) => Shift::Right,
        _ if range.is_within(SIGNED) => Shift::RightSigned,
        _ => return None,
    };
    Some(match (shift, places) {
        (Shift::Right, 8..) => (Lane::Constant(0), bounds),
        _ => (Lane::Shifted(shift, Box::new(lane), places.min(7)), bounds),
    })
}

/// A quotient or remainder of a non-negative value that is available without computing, by a constant.
fn divided(operator: Operator, (lane, range): Known, by: i64) -> Option<Known> {
    if by <= 0 || !range.is_natural() {
        return None;
    }
    let bounds = quotient(range, Range::exactly(by), operator);
    let boxed = Box::new;
    let is_power = by & (by - 1) == 0 && by <= 256;
    match operator {
        // This needs no more than the lowest byte.
        Operator::Remainder if is_power => {
            return Some((Lane::Both(Operator::And, boxed(lane), boxed(Lane::Constant(by - 1))), bounds));
        }
        Operator::Divide if is_power && by < 256 && range.is_within(UNSIGNED) => {
            return Some((Lane::Shifted(Shift::Right, boxed(lane), by.trailing_zeros().into()), bounds));
        }
        _ => {}
    }
    if !range.is_within(UNSIGNED) || range.high / by > QUOTIENT_MAX {
        return None;
    }
    // A true comparison is -1.
    let (mut answer, takes) = match operator {
        Operator::Divide => (Lane::Constant(0), Lane::Constant(-1)),
        _ => (lane.clone(), Lane::Constant(by)),
    };
    for count in 1..=range.high / by {
        let least = boxed(Lane::Constant(by * count));
        let reached = Lane::Compared(IntCC::UnsignedGreaterThanOrEqual, boxed(lane.clone()), least);
        let taken = Lane::Both(Operator::And, boxed(reached), boxed(takes.clone()));
        answer = Lane::Both(Operator::Subtract, boxed(answer), boxed(taken));
    }
    Some((answer, bounds))
}
