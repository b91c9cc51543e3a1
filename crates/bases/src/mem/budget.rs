//! Budgets: limited resources of the file system, such as pages or inodes, counted exactly.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::{Errno, Result};

/// A limited number of units, taken and returned by many threads.
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
    /// Number of units returned since `take_released` last returned true.
    released: AtomicU64,
}

impl Budget {
    /// Creates a budget of `limit` units, none of them used.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0), released: AtomicU64::new(0) }
    }

    /// Takes `units`, all or none.
    ///
    /// # Errors
    /// `ENOSPC` if fewer are left.
    pub(crate) fn take(&self, units: u64) -> Result<()> {
        let more = |used: u64| used.checked_add(units).filter(|&sum| sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop).map_err(|_| Errno::ENOSPC)
    }

    /// Returns `units` that were taken.
    pub(crate) fn release(&self, units: u64) {
        self.used.fetch_sub(units, Ordering::Relaxed);
        self.released.fetch_add(units, Ordering::Relaxed);
    }

    /// Returns whether at least `units` were returned since this last returned true.
    pub(crate) fn take_released(&self, units: u64) -> bool {
        let rest = |released: u64| (released >= units).then_some(0);
        self.released.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok()
    }

    /// Returns the total number of units.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number of units that are not taken.
    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_can_be_used_up_exactly() {
        let budget = Budget::new(3);
        budget.take(3).unwrap();
        assert_eq!(budget.take(1), Err(Errno::ENOSPC));
        assert_eq!(budget.take(u64::MAX), Err(Errno::ENOSPC));
        budget.release(2);
        assert_eq!((budget.left(), budget.limit()), (2, 3));
        assert!(!budget.take_released(3) && budget.take_released(2) && !budget.take_released(1));
    }
}
