//! Integer arithmetic: one definition for the checker, the interpreter and the compiled tier.

use crate::code::{Comparison, Integer, Operator};

/// The result of an operator on two integers of a type; `None` where C leaves it undefined, which traps: a division by
/// zero.
pub fn compute(operator: Operator, r#type: Integer, one: i64, other: i64) -> Option<i64> {
    let wide = r#type.is_unsigned && r#type.bytes == 8;
    let bits = u32::from(r#type.bytes) * 8;
    let value = match operator {
        Operator::Add => one.wrapping_add(other),
        Operator::Subtract => one.wrapping_sub(other),
        Operator::Multiply => one.wrapping_mul(other),
        Operator::Divide if wide => (one as u64).checked_div(other as u64)? as i64,
        Operator::Remainder if wide => (one as u64).checked_rem(other as u64)? as i64,
        Operator::Divide if other == 0 => return None,
        Operator::Remainder if other == 0 => return None,
        Operator::Divide => one.wrapping_div(other),
        Operator::Remainder => one.wrapping_rem(other),
        // The shift count is taken modulo the width of the type.
        Operator::ShiftLeft => one.wrapping_shl(other as u32 % bits),
        Operator::ShiftRight if wide => (one as u64).wrapping_shr(other as u32 % bits) as i64,
        Operator::ShiftRight => one.wrapping_shr(other as u32 % bits),
        Operator::And => one & other,
        Operator::Or => one | other,
        Operator::Xor => one ^ other,
    };
    Some(r#type.wrap(value))
}

/// Returns whether a comparison of two integers of a type holds.
pub fn compare(comparison: Comparison, r#type: Integer, one: i64, other: i64) -> bool {
    let order = if r#type.is_unsigned { (one as u64).cmp(&(other as u64)) } else { one.cmp(&other) };
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}
