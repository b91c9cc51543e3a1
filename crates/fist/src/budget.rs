//! A memory budget shared by runs or objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A maximum number of bytes, handed out as leases.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// Creates a budget of `most` bytes.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget { limit, used: AtomicU64::new(0) })
    }

    /// Bytes currently leased.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.limit)
        });
        taken.is_ok()
    }
}

/// Bytes leased from a budget; returned to it on drop.
#[derive(Debug, Default)]
pub struct Lease {
    budget: Option<Arc<Budget>>,
    bytes: u64,
}

impl Lease {
    /// Creates an empty lease on a budget.
    pub fn of(budget: Arc<Budget>) -> Lease {
        Lease { budget: Some(budget), bytes: 0 }
    }

    /// Grows the lease to this number of bytes; returns false if the budget does not have them. A lease without a
    /// budget is unlimited.
    #[must_use]
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        if bytes <= self.bytes {
            return true;
        }
        let is_granted = self.budget.as_ref().is_none_or(|budget| budget.take(bytes - self.bytes));
        if is_granted {
            self.bytes = bytes;
        }
        is_granted
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_share_a_budget_and_return_it() {
        let budget = Budget::new(100);
        let (mut one, mut other) = (Lease::of(Arc::clone(&budget)), Lease::of(Arc::clone(&budget)));
        assert!(one.grow_to(60) && one.grow_to(50) && other.grow_to(40));
        assert!(!other.grow_to(41) && budget.used() == 100);
        drop(one);
        assert!(other.grow_to(100) && !other.grow_to(u64::MAX) && budget.used() == 100);
        drop(other);
        assert_eq!(budget.used(), 0);
        assert!(Lease::default().grow_to(u64::MAX));
    }
}
