//! How an operation runs: with the branches held in place, on an object that is revalidated, and again if a branch has become
//! read-only.

use std::sync::{Arc, RwLockReadGuard};

use vnode::{Errno, Result};

use crate::union::branch::lease::{LEASE_CONFLICT, LeaseRetry};
use crate::union::state::Node;

impl Node {
    /// Begins an operation on the object.
    ///
    /// # Errors
    /// `ESTALE` if it was in a branch that has been removed.
    pub(crate) fn begin_operation(self: &Arc<Self>) -> Result<RwLockReadGuard<'_, ()>> {
        let guard = self.union.operation_guard();
        self.revalidate()?;
        Ok(guard)
    }

    /// Runs a read-only operation.
    pub(crate) fn run_query<T>(self: &Arc<Self>, read: impl FnOnce(&Arc<Self>) -> Result<T>) -> Result<T> {
        self.begin_operation().and_then(|_guard| read(self)).map_err(|error| self.reported_error(error))
    }

    /// Runs an operation that changes something. If a branch turns out to have become read-only, runs it once more with the
    /// branch treated as if it had been configured so (Unionfs, section 2).
    pub(crate) fn run_change<T>(self: &Arc<Self>, change: impl Fn(&Arc<Self>) -> Result<T>) -> Result<T> {
        self.run_change_within(LeaseRetry::for_single_caller(), change)
    }

    /// Like [`Node::run_change`], with another bound on the wait for a conflicting lease.
    pub(crate) fn run_change_within<T>(
        self: &Arc<Self>,
        mut lease_retry: LeaseRetry,
        change: impl Fn(&Arc<Self>) -> Result<T>,
    ) -> Result<T> {
        loop {
            self.union.retry_recovery();
            self.union.apply_foreign_changes();
            let changed = self.begin_operation().and_then(|_guard| change(self));
            match changed {
                Err(Errno::EROFS) if self.union.detect_read_only_branches() => {}
                Err(LEASE_CONFLICT) => lease_retry.wait()?,
                changed => return changed.map_err(|error| self.reported_error(error)),
            }
        }
    }
}
