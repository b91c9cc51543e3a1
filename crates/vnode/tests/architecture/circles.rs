//! The circles of a graph: its strongly connected parts of two and more nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::references::Use;

/// Returns the uses within each circle.
pub(crate) fn circles(uses: &[Use]) -> Vec<Vec<Use>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for each in uses {
        reached.entry(&each.from).or_insert_with(|| reachable(uses, &each.from));
    }
    let together = |one: &str, other: &str| {
        reached.get(one).is_some_and(|from| from.contains(other))
            && reached.get(other).is_some_and(|to| to.contains(one))
    };
    let mut circles: Vec<Vec<Use>> = Vec::new();
    for each in uses.iter().filter(|each| together(&each.from, &each.to)) {
        match circles.iter_mut().find(|circle| together(&circle[0].from, &each.from)) {
            Some(circle) => circle.push(each.clone()),
            None => circles.push(vec![each.clone()]),
        }
    }
    circles
}

/// Returns all files that a file uses, directly or through others.
fn reachable<'a>(uses: &'a [Use], from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for each in uses.iter().filter(|each| each.from == file) {
            if reached.insert(each.to.as_str()) {
                open.push(&each.to);
            }
        }
    }
    reached
}
