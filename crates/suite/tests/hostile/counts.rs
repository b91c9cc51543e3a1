//! Number of compared calls, by stack.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The counts of one user, or of all users of a stack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ComparisonCounts {
    pub compared: usize,
    /// Number of calls with an expected difference.
    pub expected: usize,
    pub others: usize,
}

static COUNTS_BY_STACK: Mutex<BTreeMap<&str, ComparisonCounts>> = Mutex::new(BTreeMap::new());

impl ComparisonCounts {
    /// Adds the counts to those of a stack.
    pub(crate) fn add_to(self, stack: &'static str) {
        let mut counts_by_stack = COUNTS_BY_STACK.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = counts_by_stack.entry(stack).or_default();
        sum.compared += self.compared;
        sum.expected += self.expected;
        sum.others += self.others;
    }
}

/// Prints the counts of each stack.
pub(crate) fn print() {
    for (stack, counts) in &*COUNTS_BY_STACK.lock().unwrap_or_else(PoisonError::into_inner) {
        println!("{stack}: {counts}");
    }
}

impl fmt::Display for ComparisonCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compared, expected, others } = self;
        write!(formatter, "{compared} calls compared, {expected} differ as they are to, {others} otherwise")
    }
}
