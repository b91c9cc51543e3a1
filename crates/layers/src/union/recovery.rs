//! Recovery: finishes interrupted work of an earlier server in branches that may be changed, once for each branch, and as soon
//! as that is possible.

use std::time::Duration;

use crate::is_only_described;
use vnode::Result;

use super::branch::branches::{BranchMember, BranchSlot};
use super::state::Union;

/// Upper bound on how long that waits for operations in progress.
const RETRY_TIMEOUT: Duration = Duration::from_millis(100);

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
            self.invalidate_views();
            drop(guard);
            self.notify_everything_changed();
        }
    }
}
