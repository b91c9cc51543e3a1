//! Nesting depth of a function: an upper bound on the stack that evaluating it takes.

use crate::code::{Expression as E, Statement as S};
use crate::visit::each_operand;

/// The depth of a sequence of statements.
pub(crate) fn of(statements: &[S]) -> u32 {
    1 + statements.iter().map(statement).max().unwrap_or(0)
}

fn statement(one: &S) -> u32 {
    1 + match one {
        S::Expression(value) | S::Return(Some(value)) => expression(value),
        S::Clear(_) | S::Break | S::Continue | S::Return(None) => 0,
        S::Block(all) => of(all),
        S::If(condition, then, otherwise) => expression(condition).max(statement(then)).max(statement(otherwise)),
        S::Loop { before, body, step, after, .. } => {
            let conditions = [before, step, after].into_iter().flatten().map(expression).max();
            conditions.unwrap_or(0).max(statement(body))
        }
        S::Switch { value, parts, .. } => expression(value).max(parts.iter().map(|part| of(part)).max().unwrap_or(0)),
    }
}

fn expression(one: &E) -> u32 {
    let mut deepest = 0;
    each_operand(one, &mut |part| deepest = deepest.max(expression(part)));
    1 + deepest
}
