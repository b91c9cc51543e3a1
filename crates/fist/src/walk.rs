//! Visitors over syntax trees: every expression of a block, including nested ones.

use crate::tree::{Block, Expression, ExpressionKind as E, Initializer, Statement, StatementKind as S, Variable};

/// Visits every expression of a block, outer ones first.
pub(crate) fn block<'t>(block: &'t Block, see: &mut dyn FnMut(&'t Expression)) {
    statements(&block.statements, see);
}

/// Visits every variable that a block declares, including those in nested blocks.
pub(crate) fn variables<'t>(block: &'t Block, see: &mut dyn FnMut(&'t Variable)) {
    block.statements.iter().for_each(|one| variables_of(one, see));
}

fn variables_of<'t>(statement: &'t Statement, see: &mut dyn FnMut(&'t Variable)) {
    match &statement.kind {
        S::Declaration(all) => all.iter().for_each(see),
        S::Block(inner) => variables(inner, see),
        S::If { then, otherwise, .. } => {
            variables_of(then, see);
            otherwise.iter().for_each(|otherwise| variables_of(otherwise, see));
        }
        S::While { body, .. } | S::DoWhile { body, .. } => variables_of(body, see),
        S::For { first, body, .. } => {
            variables_of(first, see);
            variables_of(body, see);
        }
        S::Switch { body, .. } => {
            body.iter().flat_map(|part| &part.statements).for_each(|one| variables_of(one, see));
        }
        S::Empty | S::Expression(_) | S::Break | S::Continue | S::Return(_) => {}
    }
}

fn statements<'t>(all: &'t [Statement], see: &mut dyn FnMut(&'t Expression)) {
    for one in all {
        statement(one, see);
    }
}

fn statement<'t>(statement_: &'t Statement, see: &mut dyn FnMut(&'t Expression)) {
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

fn variable<'t>(variable: &'t Variable, see: &mut dyn FnMut(&'t Expression)) {
    variable.lengths.iter().flatten().for_each(|length| expression(length, see));
    if let Some(value) = &variable.value {
        initializer(value, see);
    }
}

fn initializer<'t>(value: &'t Initializer, see: &mut dyn FnMut(&'t Expression)) {
    match value {
        Initializer::Value(value) => expression(value, see),
        Initializer::List(values, _) => values.iter().for_each(|value| initializer(value, see)),
    }
}

/// Visits an expression and every one nested in it.
pub(crate) fn expression<'t>(whole: &'t Expression, see: &mut dyn FnMut(&'t Expression)) {
    see(whole);
    whole.kind.parts(&mut |part| expression(part, see));
}

/// Returns the name of the variable or data that an lvalue is in: `a` in `a.b[3]`.
pub(crate) fn root(whole: &Expression) -> Option<&str> {
    match &whole.kind {
        E::Name(name) => Some(name),
        E::Member { of, is_arrow: false, .. } | E::Index(of, _) => root(of),
        _ => None,
    }
}
