//! Recovery: finishes interrupted work of an earlier server in branches that may be changed, once for each branch, and as soon
//! as that is possible.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use vnode::Result;

use super::branches::{BranchMember, BranchSlot};
use super::only_described::is_only_described;
use crate::union::state::Union;

/// Time after which a failed recovery is retried, by an operation that changes something.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Upper bound on how long that waits for operations in progress.
const RETRY_TIMEOUT: Duration = Duration::from_millis(100);

/// Whether recovery is incomplete, and when it was last tried.
#[derive(Default)]
pub(crate) struct RecoverySchedule {
    is_due: AtomicBool,
    last_attempt: Mutex<Option<Instant>>,
}

impl RecoverySchedule {
    fn record_attempt(&self, is_complete: bool) {
        *self.last_attempt.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.is_due.store(!is_complete, Ordering::Relaxed);
    }

    /// Returns whether to try now; `true` for one caller only.
    fn begin_retry(&self) -> bool {
        if !self.is_due.load(Ordering::Relaxed) {
            return false;
        }
        let mut last_attempt = self.last_attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last_attempt.is_none_or(|attempt| attempt.elapsed() >= RETRY_INTERVAL);
        if is_due {
            *last_attempt = Some(Instant::now());
        }
        is_due
    }
}

impl Union {
    /// Finishes interrupted work in branches that may be changed, and in the layers of theirs that belong to snapshots, unless
    /// that has been done. What cannot be done now stays recorded. No operation may be in progress.
    pub(crate) fn recover(&self) {
        if is_only_described() {
            return;
        }
        let (slots, mut is_complete) = (self.branches.slots(), true);
        for layers in slots.chunk_by(BranchSlot::is_same_branch) {
            let newest = &layers[0].member;
            if !newest.base.is_recovered() && self.is_own(&newest.base) {
                let layers = layers.iter().map(|slot| self.recover_layer(slot));
                // All are tried, whatever the result of the first.
                let is_done = layers.fold(Ok(()), Result::and).is_ok();
                if is_done && self.branches.may_change(newest) {
                    newest.base.set_recovered();
                }
                is_complete &= is_done;
            }
        }
        self.recovery.record_attempt(is_complete);
    }

    /// Like [`Union::recover`], for one layer. In layers of snapshots, only the state directories contain anything to be
    /// undone.
    fn recover_layer(&self, BranchSlot { member, .. }: &BranchSlot) -> Result<()> {
        if !member.work.was_written() {
            return Ok(());
        }
        if self.branches.may_change(member) {
            self.recover_in(member)
        } else if member.base.has_snapshots() {
            member.work.directory().map(drop)
        } else {
            Ok(())
        }
    }

    /// Schedules a retry of work that was recorded in a branch and could not be done.
    pub(crate) fn schedule_recovery(&self, member: &BranchMember) {
        member.base.set_unrecovered();
        self.recovery.record_attempt(false);
    }

    /// Retries unfinished work, if that is due. No operation guard may be held.
    pub(crate) fn retry_recovery(&self) {
        if self.recovery.begin_retry()
            && let Some(guard) = self.mount_state.exclusive_guard(RETRY_TIMEOUT)
        {
            self.recover();
            // Objects that were removed or renamed that late are looked up again.
            self.branches.bump_generation();
            self.mount_state.invalidate_views(self);
            drop(guard);
            self.notify_everything_changed();
        }
    }
}
