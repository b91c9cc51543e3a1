//! A budget: a limited resource of the file system, such as pages or inodes, counted exactly.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::{Errno, Result};

/// So many units, taken and given back by many threads.
pub(super) struct Budget {
    limit: u64,
    used: AtomicU64,
    /// Given back since somebody last asked.
    given: AtomicU64,
}

impl Budget {
    /// A budget of `limit` units, none of them used.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0), given: AtomicU64::new(0) }
    }

    /// Takes `units`, all or none.
    ///
    /// # Errors
    /// `ENOSPC` if so many are not left.
    pub(super) fn take(&self, units: u64) -> Result<()> {
        let more = |used: u64| used.checked_add(units).filter(|&sum| sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop).map_err(|_| Errno::ENOSPC)
    }

    /// Gives back `units` that were taken.
    pub(super) fn give(&self, units: u64) {
        self.used.fetch_sub(units, Ordering::Relaxed);
        self.given.fetch_add(units, Ordering::Relaxed);
    }

    /// Whether at least `units` were given back since this was last answered with yes.
    pub(super) fn were_given(&self, units: u64) -> bool {
        let rest = |given: u64| (given >= units).then_some(0);
        self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok()
    }

    /// All there is.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// What is not taken.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_unit_can_be_taken_and_no_more() {
        let budget = Budget::new(3);
        budget.take(3).unwrap();
        assert_eq!(budget.take(1), Err(Errno::ENOSPC));
        assert_eq!(budget.take(u64::MAX), Err(Errno::ENOSPC));
        budget.give(2);
        assert_eq!((budget.left(), budget.limit()), (2, 3));
        assert!(!budget.were_given(3) && budget.were_given(2) && !budget.were_given(1));
    }
}
