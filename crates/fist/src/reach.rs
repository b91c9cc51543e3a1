//! The call graph: what a function can reach by itself and through its callees.

use std::collections::BTreeSet;

use crate::code::{Expression as E, Statement as S};
use crate::program::Program;
use crate::visit::{each_expression, each_statement};

/// Returns the intrinsic and host calls that functions can reach, by index.
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

/// Returns whether the statements contain a loop.
pub fn has_loop(statements: &[S]) -> bool {
    let mut found = false;
    each_statement(statements, &mut |statement| found |= matches!(statement, S::Loop { .. }));
    found
}
