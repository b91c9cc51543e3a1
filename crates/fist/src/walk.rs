//! Visitors over syntax trees: every expression of a block, including nested ones.

use crate::tree::{Block, Expression, ExpressionKind as E, Initializer, Statement, StatementKind as S, Variable};

/// Visits every expression of a block, outer ones first.
pub(crate) fn block<'t>(block: &'t Block, visit: &mut dyn FnMut(&'t Expression)) {
    statements(&block.statements, visit);
}

/// Visits every variable that a block declares, including those in nested blocks.
pub(crate) fn variables<'t>(block: &'t Block, visit: &mut dyn FnMut(&'t Variable)) {
    block.statements.iter().for_each(|one| variables_of(one, visit));
}

fn variables_of<'t>(statement: &'t Statement, visit: &mut dyn FnMut(&'t Variable)) {
    match &statement.kind {
        S::Declaration(all) => all.iter().for_each(visit),
        S::Block(inner) => variables(inner, visit),
        S::If { then, otherwise, .. } => {
            variables_of(then, visit);
            otherwise.iter().for_each(|otherwise| variables_of(otherwise, visit));
        }
        S::While { body, .. } | S::DoWhile { body, .. } => variables_of(body, visit),
        S::For { first, body, .. } => {
            variables_of(first, visit);
            variables_of(body, visit);
        }
        S::Switch { body, .. } => {
            body.iter().flat_map(|part| &part.statements).for_each(|one| variables_of(one, visit));
        }
        S::Empty | S::Expression(_) | S::Break | S::Continue | S::Return(_) => {}
    }
}

fn statements<'t>(all: &'t [Statement], visit: &mut dyn FnMut(&'t Expression)) {
    for one in all {
        statement(one, visit);
    }
}

fn statement<'t>(statement_: &'t Statement, visit: &mut dyn FnMut(&'t Expression)) {
    match &statement_.kind {
        S::Empty | S::Break | S::Continue | S::Return(None) => {}
        S::Expression(value) | S::Return(Some(value)) => expression(value, visit),
        S::Declaration(variables) => variables.iter().for_each(|declared| variable(declared, visit)),
        S::Block(inner) => block(inner, visit),
        S::If { condition, then, otherwise } => {
            expression(condition, visit);
            statement(then, visit);
            if let Some(otherwise) = otherwise {
                statement(otherwise, visit);
            }
        }
        S::While { condition, body } | S::DoWhile { body, condition } => {
            expression(condition, visit);
            statement(body, visit);
        }
        S::For { first, condition, step, body } => {
            statement(first, visit);
            condition.iter().chain(step).for_each(|value| expression(value, visit));
            statement(body, visit);
        }
        S::Switch { value, body } => {
            expression(value, visit);
            for part in body {
                part.labels.iter().filter_map(|(label, _)| label.as_ref()).for_each(|label| expression(label, visit));
                statements(&part.statements, visit);
            }
        }
    }
}

fn variable<'t>(variable: &'t Variable, visit: &mut dyn FnMut(&'t Expression)) {
    variable.lengths.iter().flatten().for_each(|length| expression(length, visit));
    if let Some(value) = &variable.value {
        initializer(value, visit);
    }
}

fn initializer<'t>(value: &'t Initializer, visit: &mut dyn FnMut(&'t Expression)) {
    match value {
        Initializer::Value(value) => expression(value, visit),
        Initializer::List(values, _) => values.iter().for_each(|value| initializer(value, visit)),
    }
}

/// Visits an expression and every one nested in it.
pub(crate) fn expression<'t>(whole: &'t Expression, visit: &mut dyn FnMut(&'t Expression)) {
    visit(whole);
    whole.kind.parts(&mut |part| expression(part, visit));
}

/// Returns the name of the variable or data that an lvalue is in: `a` in `a.b[3]`.
pub(crate) fn root(whole: &Expression) -> Option<&str> {
    match &whole.kind {
        E::Name(name) => Some(name),
        E::Member { of, is_arrow: false, .. } | E::Index(of, _) => root(of),
        _ => None,
    }
}
