//! How deeply a function is nested: what it takes, at most, of the stack of whoever runs it.

use crate::ir::{Expression as E, Statement as S};

/// The depth of statements.
pub fn of(statements: &[S]) -> u32 {
    1 + statements.iter().map(statement).max().unwrap_or(0)
}

fn statement(one: &S) -> u32 {
    1 + match one {
        S::Expression(value) | S::Return(Some(value)) => expression(value),
        S::Clear(_) | S::Break | S::Continue | S::Return(None) => 0,
        S::Block(all) => of(all),
        S::If(condition, then, otherwise) => expression(condition).max(statement(then)).max(statement(otherwise)),
        S::Loop { before, body, step, after, .. } => {
            let asked = [before, step, after].into_iter().flatten().map(expression).max();
            asked.unwrap_or(0).max(statement(body))
        }
        S::Switch { value, parts, .. } => expression(value).max(parts.iter().map(|part| of(part)).max().unwrap_or(0)),
    }
}

fn expression(one: &E) -> u32 {
    1 + match one {
        E::Constant(_) | E::Register(_) | E::Object(_) | E::Data(_) => 0,
        E::Load(of, ..) | E::Field(of, _) | E::Convert(of, _) | E::Not(of) | E::Set(_, of) => expression(of),
        E::Element { pointer: one, index: other, .. }
        | E::Distance(one, other, ..)
        | E::Binary(_, _, one, other, _)
        | E::Compare(_, _, one, other)
        | E::And(one, other)
        | E::Or(one, other)
        | E::Sequence(one, other)
        | E::Store(one, _, other, _)
        | E::Copy(one, other, ..) => expression(one).max(expression(other)),
        E::Conditional(condition, then, otherwise) => {
            expression(condition).max(expression(then)).max(expression(otherwise))
        }
        E::Call(_, values, _) | E::Site(_, values, _) => values.iter().map(expression).max().unwrap_or(0),
    }
}
