//! Which calls out of a program a function can make, by itself and through those that it calls.

use std::collections::BTreeSet;

use crate::ir::{Expression as E, Statement as S};
use crate::program::Program;

/// The sites that a function reaches, by their index.
pub fn sites(program: &Program, function: usize) -> BTreeSet<usize> {
    let mut found = Found::default();
    let mut rest = vec![function];
    while let Some(function) = rest.pop() {
        if found.functions.insert(function) {
            program.functions[function].body.iter().for_each(|statement| found.statement(statement));
            rest.extend(found.functions_called.iter().copied());
            found.functions_called.clear();
        }
    }
    found.sites
}

/// Whether anything is done again and again.
pub fn has_loop(statements: &[S]) -> bool {
    statements.iter().any(|statement| match statement {
        S::Loop { .. } => true,
        S::Block(all) => has_loop(all),
        S::If(_, then, otherwise) => [then, otherwise].into_iter().any(|one| has_loop(std::slice::from_ref(one))),
        S::Switch { parts, .. } => parts.iter().any(|part| has_loop(part)),
        _ => false,
    })
}

#[derive(Default)]
struct Found {
    functions: BTreeSet<usize>,
    functions_called: BTreeSet<usize>,
    sites: BTreeSet<usize>,
}

impl Found {
    fn statement(&mut self, statement: &S) {
        match statement {
            S::Expression(value) | S::Return(Some(value)) => self.value(value),
            S::Clear(_) | S::Break | S::Continue | S::Return(None) => {}
            S::Block(all) => all.iter().for_each(|one| self.statement(one)),
            S::If(condition, then, otherwise) => {
                self.value(condition);
                self.statement(then);
                self.statement(otherwise);
            }
            S::Loop { before, body, step, after, .. } => {
                [before, step, after].into_iter().flatten().for_each(|value| self.value(value));
                self.statement(body);
            }
            S::Switch { value, parts, .. } => {
                self.value(value);
                parts.iter().flatten().for_each(|one| self.statement(one));
            }
        }
    }

    fn value(&mut self, value: &E) {
        match value {
            E::Constant(_) | E::Register(_) | E::Object(_) | E::Data(_) => {}
            E::Load(of, ..) | E::Field(of, _) | E::Convert(of, _) | E::Not(of) | E::Set(_, of) => self.value(of),
            E::Element { pointer: one, index: other, .. }
            | E::Distance(one, other, ..)
            | E::Binary(_, _, one, other, _)
            | E::Compare(_, _, one, other)
            | E::And(one, other)
            | E::Or(one, other)
            | E::Sequence(one, other)
            | E::Store(one, _, other, _)
            | E::Copy(one, other, ..) => {
                self.value(one);
                self.value(other);
            }
            E::Conditional(condition, then, otherwise) => {
                [condition, then, otherwise].into_iter().for_each(|one| self.value(one));
            }
            E::Call(function, values, _) => {
                self.functions_called.insert(*function);
                values.iter().for_each(|one| self.value(one));
            }
            E::Site(site, values, _) => {
                self.sites.insert(*site);
                values.iter().for_each(|one| self.value(one));
            }
        }
    }
}
