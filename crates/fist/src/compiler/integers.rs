//! Integer operators, as defined by [`crate::arithmetic`].

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::range::Range;
use super::translator::Translator;
use crate::code::{Integer, Operator};
use crate::text::Span;
use crate::trap::TrapKind;

/// A division of at most this by less than this becomes a multiplication.
const MAX_SMALL_DIVIDEND: i64 = 1 << 31;

impl Translator<'_, '_> {
    /// Truncates a value to a type and extends it again.
    pub(crate) fn wrap(&mut self, value: Value, range: Range, integer: Integer) -> (Value, Range) {
        let bounds = Range::of(integer);
        if range.is_within(bounds) {
            return (value, range);
        }
        let narrow = match integer.bytes {
            1 => types::I8,
            2 => types::I16,
            4 => types::I32,
            _ => return (value, Range::FULL),
        };
        let part = self.builder.ins().ireduce(narrow, value);
        let value = match integer.is_unsigned {
            true => self.builder.ins().uextend(types::I64, part),
            false => self.builder.ins().sextend(types::I64, part),
        };
        (value, bounds)
    }

    /// Applies an operator to two integers of a type.
    pub(crate) fn compute(
        &mut self,
        operator: Operator,
        integer: Integer,
        one: (Value, Range),
        other: (Value, Range),
        span: Span,
    ) -> (Value, Range) {
        let make = self.builder.ins();
        let (value, range) = match operator {
            Operator::Add => (make.iadd(one.0, other.0), one.1.plus(other.1)),
            Operator::Subtract => (make.isub(one.0, other.0), one.1.minus(other.1)),
            Operator::Multiply => (make.imul(one.0, other.0), one.1.times(other.1)),
            Operator::And => (make.band(one.0, other.0), masked(one.1, other.1)),
            Operator::Or => (make.bor(one.0, other.0), one.1.bitwise(other.1)),
            Operator::Xor => (make.bxor(one.0, other.0), one.1.bitwise(other.1)),
            Operator::ShiftLeft | Operator::ShiftRight => self.shift(operator, integer, one, other),
            Operator::Divide | Operator::Remainder => {
                if other.1.contains(0) {
                    let is_zero = self.compare(IntCC::Equal, other.0, 0);
                    self.trap_if(is_zero, TrapKind::DivisionByZero, span);
                }
                let is_wide = integer.is_unsigned && integer.bytes == 8;
                if is_wide && !(one.1.is_natural() && other.1.is_natural()) {
                    self.divide_unsigned(one.0, other.0, operator)
                } else {
                    self.divide(one, other, operator)
                }
            }
        };
        self.wrap(value, range, integer)
    }

    fn shift(
        &mut self,
        operator: Operator,
        integer: Integer,
        one: (Value, Range),
        other: (Value, Range),
    ) -> (Value, Range) {
        let bits = i64::from(integer.bytes) * 8;
        let mask = self.constant(bits - 1);
        let amount = self.builder.ins().band(other.0, mask);
        let known = other.1.known().map(|amount| amount & (bits - 1));
        match operator {
            Operator::ShiftLeft => {
                let range = known.filter(|amount| *amount < 62).map(|amount| one.1.times(Range::exactly(1 << amount)));
                (self.builder.ins().ishl(one.0, amount), range.unwrap_or(Range::FULL))
            }
            _ if integer.is_unsigned && bits == 64 => {
                let range = if one.1.is_natural() { Range { low: 0, high: one.1.high } } else { Range::FULL };
                (self.builder.ins().ushr(one.0, amount), range)
            }
            _ => {
                let range = match known {
                    Some(amount) => Range { low: one.1.low >> amount, high: one.1.high >> amount },
                    None => one.1.or(Range::exactly(if one.1.is_natural() { 0 } else { -1 })).or_zero(),
                };
                (self.builder.ins().sshr(one.0, amount), range)
            }
        }
    }

    fn divide_unsigned(&mut self, one: Value, other: Value, operator: Operator) -> (Value, Range) {
        let value = match operator {
            Operator::Divide => self.builder.ins().udiv(one, other),
            _ => self.builder.ins().urem(one, other),
        };
        (value, Range::FULL)
    }

    /// Signed division or remainder; the divisor is not 0.
    pub(crate) fn divide(&mut self, one: (Value, Range), other: (Value, Range), operator: Operator) -> (Value, Range) {
        let range = quotient(one.1, other.1, operator);
        if other.1 == Range::exactly(1) {
            let value = if operator == Operator::Divide { one.0 } else { self.constant(0) };
            return (value, range);
        }
        if let Some(by) = other.1.known().filter(|by| (2..MAX_SMALL_DIVIDEND).contains(by))
            && one.1.is_within(Range { low: -MAX_SMALL_DIVIDEND / by, high: MAX_SMALL_DIVIDEND / by })
        {
            return (self.divide_small(one, by, operator), range);
        }
        // The least integer has no negation: divided by -1 it stays as it is, where the CPU would trap.
        let is_safe = one.1.low > i64::MIN || !other.1.contains(-1);
        let minus = (!is_safe).then(|| self.compare(IntCC::Equal, other.0, -1));
        let by = match minus {
            Some(minus) => {
                let one = self.constant(1);
                self.builder.ins().select(minus, one, other.0)
            }
            None => other.0,
        };
        let value = match operator {
            Operator::Divide => {
                let quotient = self.builder.ins().sdiv(one.0, by);
                let opposite = self.builder.ins().ineg(quotient);
                minus.map_or(quotient, |minus| self.builder.ins().select(minus, opposite, quotient))
            }
            // The remainder by 1 is 0, and so is that by -1.
            _ => self.builder.ins().srem(one.0, by),
        };
        (value, range)
    }

    /// Division of a small value by a small constant of at least 2: multiplication by 2^32 divided by that constant,
    /// rounded up, which is too large by less than the distance to the next quotient. The product is less than 2^62.
    fn divide_small(&mut self, (value, range): (Value, Range), by: i64, operator: Operator) -> Value {
        let (factor, amount) = (self.constant((1 << 32) / by + 1), self.constant(32));
        let product = self.builder.ins().imul(value, factor);
        let mut quotient = self.builder.ins().sshr(product, amount);
        if !range.is_natural() {
            // Rounds towards zero.
            let amount = self.constant(63);
            let sign = self.builder.ins().sshr(value, amount);
            quotient = self.builder.ins().isub(quotient, sign);
        }
        if operator == Operator::Divide {
            return quotient;
        }
        let by = self.constant(by);
        let whole = self.builder.ins().imul(quotient, by);
        self.builder.ins().isub(value, whole)
    }
}

impl Range {
    /// The range extended to include zero.
    fn or_zero(self) -> Range {
        self.or(Range::exactly(0))
    }
}

/// The range of a bitwise and.
pub(crate) fn masked(one: Range, other: Range) -> Range {
    match (one.is_natural(), other.is_natural()) {
        (true, true) => Range { low: 0, high: one.high.min(other.high) },
        (true, false) => Range { low: 0, high: one.high },
        (false, true) => Range { low: 0, high: other.high },
        (false, false) => one.bitwise(other),
    }
}

/// The range of a quotient or remainder.
pub(crate) fn quotient(one: Range, other: Range, operator: Operator) -> Range {
    if one.low == i64::MIN {
        return Range::FULL;
    }
    let most = one.low.unsigned_abs().max(one.high.unsigned_abs()) as i64;
    let most = match operator {
        Operator::Divide => most,
        _ => {
            let by = other.low.unsigned_abs().max(other.high.unsigned_abs());
            most.min(i64::try_from(by.saturating_sub(1)).unwrap_or(i64::MAX))
        }
    };
    match operator {
        // A remainder has the sign of the dividend.
        Operator::Remainder => {
            Range { low: if one.low < 0 { -most } else { 0 }, high: if one.high > 0 { most } else { 0 } }
        }
        _ if one.is_natural() && other.is_natural() => Range { low: 0, high: most },
        _ => Range { low: -most, high: most },
    }
}
