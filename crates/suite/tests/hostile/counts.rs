//! How many calls were compared, by stack.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Of one user, or of all in a stack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub compared: usize,
    /// Whose difference is expected.
    pub expected: usize,
    pub others: usize,
}

static OF_STACKS: Mutex<BTreeMap<&str, Counts>> = Mutex::new(BTreeMap::new());

impl Counts {
    /// Adds them to those of a stack.
    pub(crate) fn note(self, stack: &'static str) {
        let mut of_stacks = OF_STACKS.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = of_stacks.entry(stack).or_default();
        sum.compared += self.compared;
        sum.expected += self.expected;
        sum.others += self.others;
    }
}

/// Prints the counts of each stack.
pub(crate) fn print() {
    for (stack, counts) in &*OF_STACKS.lock().unwrap_or_else(PoisonError::into_inner) {
        println!("{stack}: {counts}");
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compared, expected, others } = self;
        write!(formatter, "{compared} calls compared, {expected} differ as they are to, {others} otherwise")
    }
}
