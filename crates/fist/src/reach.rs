//! What a function can come to, by itself and through those that it calls.

use std::collections::BTreeSet;

use crate::code::{Expression as E, Statement as S};
use crate::program::Program;
use crate::visit::{each_expression, each_statement};

/// The calls out of the program that functions can make, by their index.
pub fn sites(program: &Program, functions: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
    let (mut seen, mut sites) = (BTreeSet::new(), BTreeSet::new());
    let mut rest: Vec<usize> = functions.into_iter().collect();
    while let Some(function) = rest.pop() {
        if seen.insert(function) {
            each_expression(&program.functions[function], &mut |one| match one {
                E::Call(function, ..) => rest.push(*function),
                E::Site(site, ..) => {
                    sites.insert(*site);
                }
                _ => {}
            });
        }
    }
    sites
}

/// Whether anything is done again and again.
pub fn has_loop(statements: &[S]) -> bool {
    let mut found = false;
    each_statement(statements, &mut |statement| found |= matches!(statement, S::Loop { .. }));
    found
}
