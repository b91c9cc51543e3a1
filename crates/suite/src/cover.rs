//! Selection of tests per run that suffices for each test to cover every layer and base, by vnodes and mounted, and every
//! transport.

use std::collections::BTreeSet;

use conformance::Test;

use crate::access::StackAccess;
use crate::plan::{Bottom, RunPlan};

/// A property of runs that each test must cover.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CoveredProperty {
    /// A layer, or none, by vnodes or mounted.
    Layer(bool, String),
    /// A base, by vnodes or mounted.
    Base(bool, &'static str),
    /// A transport, or none.
    StackAccess(StackAccess),
    /// A process without privileges, by vnodes or mounted.
    User(bool),
}

/// Returns the properties that a test covers in this run.
fn covered_properties(plan: &RunPlan) -> BTreeSet<CoveredProperty> {
    let is_mount = plan.access.is_mount();
    let base = match (plan.bottom, &plan.union) {
        (Bottom::Memory, _) => "mem",
        (Bottom::Image, _) => "iso",
        (Bottom::Fat(_), _) => "fat",
        (Bottom::Directory, Some(_)) => "union",
        (Bottom::Directory, None) => "dir",
    };
    let mut covered_properties = BTreeSet::from([
        CoveredProperty::Layer(is_mount, plan.layers.last().copied().unwrap_or("none").to_owned()),
        CoveredProperty::Base(is_mount, base),
        CoveredProperty::StackAccess(plan.access),
    ]);
    covered_properties.extend((!plan.is_root).then_some(CoveredProperty::User(is_mount)));
    covered_properties
}

/// Returns, for each run, the indices of its selected tests. The first run differs from test to test, so that all runs are
/// used; and each run has at least one test of each group.
pub fn select_covering(plans: &[RunPlan], tests: &[&Test]) -> Vec<BTreeSet<usize>> {
    let mut chosen = vec![BTreeSet::new(); plans.len()];
    let plan_properties: Vec<BTreeSet<CoveredProperty>> = plans.iter().map(covered_properties).collect();
    for (index, test) in tests.iter().enumerate() {
        let applicable: Vec<usize> = (0..plans.len()).filter(|run| applies(&plans[*run], test)).collect();
        let mut missing: BTreeSet<&CoveredProperty> =
            applicable.iter().flat_map(|run| &plan_properties[*run]).collect();
        while !missing.is_empty() {
            let new = |run: usize| plan_properties[run].iter().filter(|property| missing.contains(property)).count();
            let rotated = (0..applicable.len()).map(|step| applicable[(step + index * STRIDE) % applicable.len()]);
            let best = rotated.rev().max_by_key(|run| new(*run)).expect("what is missing is met by a run");
            missing.retain(|property| !plan_properties[best].contains(property));
            chosen[best].insert(index);
        }
    }
    for (plan, chosen) in plans.iter().zip(&mut chosen) {
        one_of_each_group(plan, tests, chosen);
    }
    chosen
}

/// Number of runs by which the first run advances from one test to the next: coprime to the numbers of runs that occur.
const STRIDE: usize = 31;

fn applies(plan: &RunPlan, test: &Test) -> bool {
    plan.has(test) && plan.abilities().missing(test.needs).is_none()
}

fn one_of_each_group(plan: &RunPlan, tests: &[&Test], chosen: &mut BTreeSet<usize>) {
    let mut groups: BTreeSet<&str> = chosen.iter().map(|index| tests[*index].group).collect();
    for (index, test) in tests.iter().enumerate() {
        if !groups.contains(test.group) && applies(plan, test) {
            groups.insert(test.group);
            chosen.insert(index);
        }
    }
}

/// Distributes the tests over the runs, in turn: each test to `runs_per_test` runs.
pub fn distribute(plans: &[RunPlan], tests: &[&Test], runs_per_test: usize) -> Vec<BTreeSet<usize>> {
    let mut distributed = vec![BTreeSet::new(); plans.len()];
    let mut next = 0;
    for (index, test) in tests.iter().enumerate() {
        let mut remaining = runs_per_test;
        for _ in 0..plans.len() {
            let run = next % plans.len();
            next += 1;
            if remaining > 0 && applies(&plans[run], test) && distributed[run].insert(index) {
                remaining -= 1;
            }
            if remaining == 0 {
                break;
            }
        }
    }
    distributed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{self, Facilities};

    const ALL_FACILITIES: Facilities = Facilities { is_root: true, can_mount: true, has_uring: true };

    #[test]
    fn every_test_covers_every_layer_and_base_both_ways() {
        let (plans, tests) = (matrix::single(ALL_FACILITIES), conformance::all().iter().collect::<Vec<_>>());
        let chosen = select_covering(&plans, &tests);
        for (index, test) in tests.iter().enumerate() {
            let all: BTreeSet<CoveredProperty> =
                plans.iter().filter(|plan| applies(plan, test)).flat_map(covered_properties).collect();
            let runs = plans.iter().zip(&chosen).filter(|(_, chosen)| chosen.contains(&index));
            let met: BTreeSet<CoveredProperty> = runs.flat_map(|(plan, _)| covered_properties(plan)).collect();
            assert_eq!(met, all, "{}", test.full_name());
        }
        let count: usize = chosen.iter().map(BTreeSet::len).sum();
        let all: usize = plans.iter().map(|plan| tests.iter().filter(|test| applies(plan, test)).count()).sum();
        assert!(count * 2 < all, "{count} of {all}");
    }

    #[test]
    fn every_run_gets_some_of_the_distributed_tests() {
        let (plans, tests) = (matrix::double(ALL_FACILITIES), conformance::all().iter().collect::<Vec<_>>());
        let distributed = distribute(&plans, &tests, 2);
        for (plan, distributed) in plans.iter().zip(&distributed) {
            assert!(!distributed.is_empty(), "{}", plan.title());
            assert!(distributed.iter().all(|index| applies(plan, tests[*index])));
        }
    }
}
