//! Mapping of operators and conversions to the intermediate form.

use crate::ir::{Comparison, Constant, Expression as Made, Integer, Operator, Type};
use crate::text::Span;
use crate::tree::{BinaryOperator as B, UnaryOperator as U};

/// The arithmetic operator of a syntax operator, if it is one.
pub(crate) fn computing(operator: B) -> Option<Operator> {
    Some(match operator {
        B::Add => Operator::Add,
        B::Subtract => Operator::Subtract,
        B::Multiply => Operator::Multiply,
        B::Divide => Operator::Divide,
        B::Remainder => Operator::Remainder,
        B::ShiftLeft => Operator::ShiftLeft,
        B::ShiftRight => Operator::ShiftRight,
        B::BitAnd => Operator::And,
        B::BitOr => Operator::Or,
        B::BitXor => Operator::Xor,
        _ => return None,
    })
}

/// The comparison of a syntax operator, if it is one.
pub(crate) fn comparing(operator: B) -> Option<Comparison> {
    Some(match operator {
        B::Equal => Comparison::Equal,
        B::NotEqual => Comparison::NotEqual,
        B::Less => Comparison::Less,
        B::LessOrEqual => Comparison::LessOrEqual,
        B::Greater => Comparison::Greater,
        B::GreaterOrEqual => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// The type of an integer literal (C, "integer constants").
pub(crate) fn type_of(value: u64, is_unsigned: bool, is_long: bool) -> Integer {
    let fits = |most: u64| value <= most;
    match (is_unsigned, is_long) {
        (false, false) if fits(i32::MAX as u64) => Integer::INT,
        (true, false) if fits(u32::MAX.into()) => Integer::UNSIGNED,
        (false, _) if fits(i64::MAX as u64) => Integer::LONG,
        _ => Integer::UNSIGNED_LONG,
    }
}

/// The size of a type in bytes: 0 for `void`.
pub(crate) fn size(r#type: Type) -> Made {
    if r#type == Type::Void { Made::integer(0) } else { Made::Size(r#type) }
}

/// Unary `+`, `-` and `~`.
pub(crate) fn signed(operator: U, value: Made, from: Integer, span: Span) -> (Made, Integer) {
    let to = from.promoted();
    let value = converted(value, from, to);
    let made = match (operator, &value) {
        (U::Plus, _) => value,
        (U::Negate, Made::Constant(Constant::Integer(value))) => Made::integer(to.wrap(value.wrapping_neg())),
        (U::Negate, _) => Made::Binary(Operator::Subtract, to, Box::new(Made::integer(0)), Box::new(value), span),
        _ => Made::Binary(Operator::Xor, to, Box::new(value), Box::new(Made::integer(to.wrap(-1))), span),
    };
    (made, to)
}

/// Converts an integer to another type.
pub(crate) fn converted(made: Made, from: Integer, to: Integer) -> Made {
    match made {
        Made::Constant(Constant::Integer(value)) => Made::integer(to.wrap(value)),
        made if to.holds(from) || (to.bytes == 8 && from.bytes == 8) => made,
        made => Made::Convert(Box::new(made), to),
    }
}
