//! Walks through trees: every expression of a block, those within others included.

use crate::tree::{Block, Expression, ExpressionKind as E, Initializer, Statement, StatementKind as S, Variable};

/// Shows every expression of a block, the outer before the inner ones.
pub fn block(block: &Block, see: &mut dyn FnMut(&Expression)) {
    statements(&block.statements, see);
}

fn statements(all: &[Statement], see: &mut dyn FnMut(&Expression)) {
    for one in all {
        statement(one, see);
    }
}

fn statement(statement_: &Statement, see: &mut dyn FnMut(&Expression)) {
    match &statement_.kind {
        S::Empty | S::Break | S::Continue | S::Return(None) => {}
        S::Expression(value) | S::Return(Some(value)) => expression(value, see),
        S::Declaration(variables) => variables.iter().for_each(|declared| variable(declared, see)),
        S::Block(inner) => block(inner, see),
        S::If { condition, then, otherwise } => {
            expression(condition, see);
            statement(then, see);
            if let Some(otherwise) = otherwise {
                statement(otherwise, see);
            }
        }
        S::While { condition, body } | S::DoWhile { body, condition } => {
            expression(condition, see);
            statement(body, see);
        }
        S::For { first, condition, step, body } => {
            statement(first, see);
            condition.iter().chain(step).for_each(|value| expression(value, see));
            statement(body, see);
        }
        S::Switch { value, body } => {
            expression(value, see);
            for part in body {
                part.labels.iter().filter_map(|(label, _)| label.as_ref()).for_each(|label| expression(label, see));
                statements(&part.statements, see);
            }
        }
    }
}

fn variable(variable: &Variable, see: &mut dyn FnMut(&Expression)) {
    variable.lengths.iter().flatten().for_each(|length| expression(length, see));
    if let Some(value) = &variable.value {
        initializer(value, see);
    }
}

fn initializer(value: &Initializer, see: &mut dyn FnMut(&Expression)) {
    match value {
        Initializer::Value(value) => expression(value, see),
        Initializer::List(values, _) => values.iter().for_each(|value| initializer(value, see)),
    }
}

/// Shows an expression and every one within it.
pub fn expression(whole: &Expression, see: &mut dyn FnMut(&Expression)) {
    see(whole);
    whole.kind.parts(&mut |part| expression(part, see));
}

/// The name of the variable or the data that an lvalue is in: `a` in `a.b[3]`.
pub fn root(whole: &Expression) -> Option<&str> {
    match &whole.kind {
        E::Name(name) => Some(name),
        E::Member { of, is_arrow: false, .. } | E::Index(of, _) => root(of),
        _ => None,
    }
}
