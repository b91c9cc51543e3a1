//! Selection of tests per run that suffices for each test to cover every layer and base, by vnodes and mounted, and every
//! transport.

use std::collections::BTreeSet;

use conformance::Test;

use crate::plan::Plan;
use crate::reach::Reach;

/// A property of runs that each test must cover.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// A layer, or none, by vnodes or mounted.
    Layer(bool, String),
    /// A base, by vnodes or mounted.
    Base(bool, &'static str),
    /// A transport, or none.
    Reach(Reach),
    /// A process without privileges, by vnodes or mounted.
    User(bool),
}

/// Returns the properties that a test covers in this run.
fn needs(plan: &Plan) -> BTreeSet<Need> {
    let is_mount = plan.reach.is_mount();
    let base = match (plan.in_memory, &plan.union) {
        (true, _) => "mem",
        (_, Some(_)) => "union",
        _ => "dir",
    };
    let mut needs = BTreeSet::from([
        Need::Layer(is_mount, plan.layers.last().copied().unwrap_or("none").to_owned()),
        Need::Base(is_mount, base),
        Need::Reach(plan.reach),
    ]);
    needs.extend((!plan.is_root).then_some(Need::User(is_mount)));
    needs
}

/// Returns, for each run, the indices of its selected tests. The first run differs from test to test, so that all runs are
/// used; and each run has at least one test of each group.
pub fn choose(plans: &[Plan], tests: &[&Test]) -> Vec<BTreeSet<usize>> {
    let mut chosen = vec![BTreeSet::new(); plans.len()];
    let plan_needs: Vec<BTreeSet<Need>> = plans.iter().map(needs).collect();
    for (index, test) in tests.iter().enumerate() {
        let applicable: Vec<usize> = (0..plans.len()).filter(|run| applies(&plans[*run], test)).collect();
        let mut missing: BTreeSet<&Need> = applicable.iter().flat_map(|run| &plan_needs[*run]).collect();
        while !missing.is_empty() {
            let new = |run: usize| plan_needs[run].iter().filter(|need| missing.contains(need)).count();
            let turned = (0..applicable.len()).map(|step| applicable[(step + index * STRIDE) % applicable.len()]);
            let best = turned.rev().max_by_key(|run| new(*run)).expect("what is missing is met by a run");
            missing.retain(|need| !plan_needs[best].contains(need));
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

fn applies(plan: &Plan, test: &Test) -> bool {
    plan.has(test) && plan.abilities().missing(test.needs).is_none()
}

fn one_of_each_group(plan: &Plan, tests: &[&Test], chosen: &mut BTreeSet<usize>) {
    let mut groups: BTreeSet<&str> = chosen.iter().map(|index| tests[*index].group).collect();
    for (index, test) in tests.iter().enumerate() {
        if !groups.contains(test.group) && applies(plan, test) {
            groups.insert(test.group);
            chosen.insert(index);
        }
    }
}

/// Distributes the tests over runs that are each to be tried with some of them: each test to `hands` runs, in turn.
pub fn deal(plans: &[Plan], tests: &[&Test], hands: usize) -> Vec<BTreeSet<usize>> {
    let mut dealt = vec![BTreeSet::new(); plans.len()];
    let mut next = 0;
    for (index, test) in tests.iter().enumerate() {
        let mut left = hands;
        for _ in 0..plans.len() {
            let run = next % plans.len();
            next += 1;
            if left > 0 && applies(&plans[run], test) && dealt[run].insert(index) {
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{self, Means};

    const EVERYTHING: Means = Means { is_root: true, can_mount: true, has_uring: true };

    #[test]
    fn every_test_meets_every_layer_and_base_both_ways() {
        let (plans, tests) = (matrix::single(EVERYTHING), conformance::all().iter().collect::<Vec<_>>());
        let chosen = choose(&plans, &tests);
        for (index, test) in tests.iter().enumerate() {
            let all: BTreeSet<Need> = plans.iter().filter(|plan| applies(plan, test)).flat_map(needs).collect();
            let runs = plans.iter().zip(&chosen).filter(|(_, chosen)| chosen.contains(&index));
            let met: BTreeSet<Need> = runs.flat_map(|(plan, _)| needs(plan)).collect();
            assert_eq!(met, all, "{}", test.full_name());
        }
        let count: usize = chosen.iter().map(BTreeSet::len).sum();
        let all: usize = plans.iter().map(|plan| tests.iter().filter(|test| applies(plan, test)).count()).sum();
        assert!(count * 2 < all, "{count} of {all}");
    }

    #[test]
    fn every_run_has_its_share_of_what_is_dealt() {
        let (plans, tests) = (matrix::double(EVERYTHING), conformance::all().iter().collect::<Vec<_>>());
        let dealt = deal(&plans, &tests, 2);
        for (plan, dealt) in plans.iter().zip(&dealt) {
            assert!(!dealt.is_empty(), "{}", plan.title());
            assert!(dealt.iter().all(|index| applies(plan, tests[*index])));
        }
    }
}
