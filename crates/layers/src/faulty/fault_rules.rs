//! Rules of `faulty`: the operations they select, and the faults they inject.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use vnode::Errno;
use vnode::layer::Operation;

/// Effect on an operation that a rule selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultEffect {
    /// No effect: the rule only delays the operation.
    None,
    /// The operation fails, and nothing is done below.
    Error(Errno),
    /// The operation is performed, and fails.
    LateError(Errno),
    /// The operation moves at most this many bytes.
    Short(usize),
    /// Operations that need new space get this many bytes of it in total.
    SpaceLimit(u64),
    /// The operation waits until the rules are replaced or switched off.
    Stop,
}

/// A delay followed by an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) delay: Duration,
    pub(crate) effect: FaultEffect,
}

/// Selects operations, and determines the fault injected into them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FaultRule {
    /// Bit set of operations, indexed by position in [`Operation::NAMES`].
    pub(crate) operations: u64,
    /// Range of byte offsets; if there is one, operations without an offset are not selected.
    pub(crate) offsets: Option<RangeInclusive<u64>>,
    /// Number of the first matching operation that is selected, counted from 1.
    pub(crate) from: u64,
    /// Interval at which the operations that match from then on are selected; not 0.
    pub(crate) every: u64,
    /// Maximum number of selected operations.
    pub(crate) times: u64,
    /// Probability, in millionths, that an operation that would be selected is.
    pub(crate) chance: u64,
    pub(crate) fault: Fault,
}

/// Probability of one, in millionths.
pub(crate) const CHANCE_SCALE: u64 = 1_000_000;

/// Rules with their counters.
#[derive(Debug)]
pub(crate) struct FaultRules {
    rules: Vec<CountedFaultRule>,
    seed: u64,
    calls: AtomicU64,
    faults: AtomicU64,
    /// Number of bytes of new space granted so far.
    granted: AtomicU64,
}

#[derive(Debug)]
struct CountedFaultRule {
    rule: FaultRule,
    matched: AtomicU64,
    selected: AtomicU64,
}

impl FaultRules {
    pub(crate) fn new(rules: Vec<FaultRule>, seed: u64) -> Self {
        let counted = |rule| CountedFaultRule { rule, matched: AtomicU64::new(0), selected: AtomicU64::new(0) };
        let rules = rules.into_iter().map(counted).collect();
        Self { rules, seed, calls: AtomicU64::new(0), faults: AtomicU64::new(0), granted: AtomicU64::new(0) }
    }

    /// Grants up to `wanted` bytes from the rest of `room` bytes of new space, and returns the number granted.
    pub(crate) fn grant_space(&self, limit: u64, wanted: u64) -> u64 {
        let more = |granted: u64| Some(granted + wanted.min(limit.saturating_sub(granted)));
        let before = self.granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).unwrap_or(limit);
        wanted.min(limit.saturating_sub(before))
    }

    /// Counts an operation for every rule that it matches, and returns the fault of the first rule that selects it.
    pub(crate) fn next_fault(&self, operation: &Operation<'_>) -> Option<Fault> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut fault = None;
        for (index, counted) in self.rules.iter().enumerate() {
            if counted.selects(operation, self.seed.wrapping_add(index as u64)) && fault.is_none() {
                fault = Some(counted.rule.fault);
            }
        }
        if fault.is_some() {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
        fault
    }

    /// Formats the numbers of operations and faults since the rules were set, for display.
    pub(crate) fn counts(&self) -> String {
        let [calls, faults] = [&self.calls, &self.faults].map(|count| count.load(Ordering::Relaxed));
        format!("calls={calls} faults={faults}")
    }
}

impl CountedFaultRule {
    fn selects(&self, operation: &Operation<'_>, seed: u64) -> bool {
        let rule = &self.rule;
        if !rule.matches(operation) {
            return false;
        }
        let number = self.matched.fetch_add(1, Ordering::Relaxed) + 1;
        let is_due = number >= rule.from && (number - rule.from).is_multiple_of(rule.every);
        is_due
            && (rule.chance == CHANCE_SCALE || hash(seed, number) % CHANCE_SCALE < rule.chance)
            && self.selected.fetch_add(1, Ordering::Relaxed) < rule.times
    }
}

impl FaultRule {
    fn matches(&self, operation: &Operation<'_>) -> bool {
        self.operations >> operation.index() & 1 == 1
            && self.offsets.as_ref().is_none_or(|wanted| {
                offsets(operation).is_some_and(|(first, last)| first <= *wanted.end() && *wanted.start() <= last)
            })
    }
}

/// Returns the offsets of the first and last byte that an operation covers. An operation without a length covers the
/// byte at its offset.
fn offsets(operation: &Operation<'_>) -> Option<(u64, u64)> {
    let (offset, length) = match *operation {
        Operation::Read { offset, length } | Operation::Write { offset, length } => (offset, length as u64),
        Operation::Allocate { offset, length, .. } | Operation::CopyRange { offset, length, .. } => (offset, length),
        Operation::Seek { offset, .. } => (offset, 0),
        Operation::Truncate { size } => (size, 0),
        Operation::SetAttributes(changes) => (changes.size?, 0),
        _ => return None,
    };
    Some((offset, offset.saturating_add(length.saturating_sub(1))))
}

/// Returns a pseudo-random number that depends on both arguments (the finalizer of SplitMix64).
fn hash(seed: u64, number: u64) -> u64 {
    let mut hash = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn parse_rules(rules: &str) -> FaultRules {
        FaultRules::new(crate::rules::lines("rules", rules, parse::rule).unwrap(), 7)
    }

    const WRITE: Operation<'static> = Operation::Write { offset: 100, length: 50 };

    fn faults(rules: &FaultRules, count: usize, operation: &Operation<'_>) -> Vec<usize> {
        (1..=count).filter(|_| rules.next_fault(operation).is_some()).collect()
    }

    #[test]
    fn operations_are_selected_by_number() {
        assert_eq!(faults(&parse_rules("error=EIO from=3 every=2 times=2"), 10, &WRITE), [3, 5]);
        assert_eq!(faults(&parse_rules("error=EIO"), 3, &Operation::Flush), [1, 2, 3]);
        assert!(faults(&parse_rules("operations=read:write error=EIO"), 1, &Operation::Flush).is_empty());
    }

    #[test]
    fn offsets_select_overlapping_operations() {
        for (rule, is_selected) in [("0-99", false), ("0-100", true), ("149-149", true), ("150-", false), ("120", true)]
        {
            let selected = parse_rules(&format!("error=EIO offset={rule}")).next_fault(&WRITE).is_some();
            assert_eq!(selected, is_selected, "{rule}");
        }
        assert_eq!(parse_rules("error=EIO offset=0-").next_fault(&Operation::Flush), None);
    }

    #[test]
    fn equal_seeds_select_equal_operations() {
        let [first, second] = [(); 2].map(|()| faults(&parse_rules("error=EIO chance=10"), 10_000, &WRITE));
        assert_eq!(first, second);
        assert!((800..1200).contains(&first.len()), "{} of 10,000 for 10 %", first.len());
    }

    #[test]
    fn first_selecting_rule_applies_and_all_rules_count() {
        let rules = parse_rules("operations=write error=EIO times=1\noperations=write error=ENOSPC from=2");
        let next = || rules.next_fault(&WRITE).map(|fault| fault.effect);
        assert_eq!(next(), Some(FaultEffect::Error(Errno::EIO)));
        assert_eq!(next(), Some(FaultEffect::Error(Errno::ENOSPC)));
        assert_eq!(rules.counts(), "calls=2 faults=2");
    }
}
