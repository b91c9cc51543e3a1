//! Memory for the known runs of all files of a volume together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory of a remembered run in bytes.
pub(crate) const RUN_SIZE: usize = 12;

/// Number of runs that a file may always remember.
const RUNS_MIN: usize = 64;

/// Number of runs that the files of a volume remember.
#[derive(Debug)]
pub(crate) struct RunBudget {
    charged: AtomicUsize,
    runs_max: usize,
}

/// The part of a budget that one file has.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    /// Absent before the first change.
    budget: Option<Arc<RunBudget>>,
    runs: usize,
}

impl RunBudget {
    /// Returns a budget of so many runs. Those that files may always have are not limited by it.
    pub(crate) fn new(runs_max: usize) -> Arc<Self> {
        Arc::new(Self { charged: AtomicUsize::new(0), runs_max })
    }

    /// Returns how many of `wanted` runs the file with a charge may remember.
    pub(crate) fn allowed(&self, charge: &Charge, wanted: usize) -> usize {
        let others = self.charged.load(Ordering::Relaxed).saturating_sub(charge.runs);
        wanted.min(self.runs_max.saturating_sub(others).max(RUNS_MIN))
    }
}

impl Charge {
    /// Notes the number of runs that the file remembers.
    pub(crate) fn set(&mut self, budget: &Arc<RunBudget>, runs: usize) {
        let runs = if runs <= RUNS_MIN { 0 } else { runs };
        if self.runs == runs {
            return;
        }
        let shared = self.budget.get_or_insert_with(|| budget.clone());
        shared.charged.fetch_add(runs, Ordering::Relaxed);
        shared.charged.fetch_sub(self.runs, Ordering::Relaxed);
        self.runs = runs;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.charged.fetch_sub(self.runs, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_share_the_budget_and_return_it() {
        let budget = RunBudget::new(1000);
        let mut one = Charge::default();
        assert_eq!(budget.allowed(&one, 700), 700);
        one.set(&budget, 700);
        assert_eq!(budget.allowed(&one, 900), 900, "its own runs do not count against it");
        let mut other = Charge::default();
        assert_eq!(budget.allowed(&other, 700), 300);
        other.set(&budget, 300);
        assert_eq!(budget.allowed(&Charge::default(), 700), RUNS_MIN);
        drop(one);
        assert_eq!(budget.allowed(&other, 1200), 1000);
    }
}
