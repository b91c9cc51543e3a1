//! Mapping of operators and conversions to the intermediate form.

use crate::ir::{Comparison, Constant, Expression as IrExpression, Integer, Operator, Type};
use crate::text::Span;
use crate::tree::{BinaryOperator as B, UnaryOperator as U};

/// The arithmetic operator of a syntax operator, if it is one.
pub(crate) fn arithmetic_operator(operator: B) -> Option<Operator> {
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
pub(crate) fn comparison_operator(operator: B) -> Option<Comparison> {
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
pub(crate) fn size(r#type: Type) -> IrExpression {
    if r#type == Type::Void { IrExpression::integer(0) } else { IrExpression::Size(r#type) }
}

/// Unary `+`, `-` and `~`.
pub(crate) fn unary_arithmetic(operator: U, value: IrExpression, from: Integer, span: Span) -> (IrExpression, Integer) {
    let to = from.promoted();
    let value = convert_integer(value, from, to);
    let lowered = match (operator, &value) {
        (U::Plus, _) => value,
        (U::Negate, IrExpression::Constant(Constant::Integer(value))) => {
            IrExpression::integer(to.wrap(value.wrapping_neg()))
        }
        (U::Negate, _) => {
            IrExpression::Binary(Operator::Subtract, to, Box::new(IrExpression::integer(0)), Box::new(value), span)
        }
        _ => {
            IrExpression::Binary(Operator::Xor, to, Box::new(value), Box::new(IrExpression::integer(to.wrap(-1))), span)
        }
    };
    (lowered, to)
}

/// Converts an integer to another type.
pub(crate) fn convert_integer(lowered: IrExpression, from: Integer, to: Integer) -> IrExpression {
    match lowered {
        IrExpression::Constant(Constant::Integer(value)) => IrExpression::integer(to.wrap(value)),
        lowered if to.holds(from) || (to.bytes == 8 && from.bytes == 8) => lowered,
        lowered => IrExpression::Convert(Box::new(lowered), to),
    }
}
