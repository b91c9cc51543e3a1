//! Recovery: finishes interrupted work of an earlier server in branches that may be changed, once for each branch, and as soon
//! as that is possible.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use vnode::Result;

use super::branches::{Member, Slot};
use super::claim::is_only_described;
use crate::union::state::Union;

/// Time after which a failed recovery is retried, by an operation that changes something.
const RETRY: Duration = Duration::from_secs(1);
/// Upper bound on how long that waits for operations in progress.
const PATIENCE: Duration = Duration::from_millis(100);

/// Whether recovery is incomplete, and when it was last tried.
#[derive(Default)]
pub(crate) struct Recovery {
    is_due: AtomicBool,
    tried: Mutex<Option<Instant>>,
}

impl Recovery {
    fn note(&self, is_all: bool) {
        *self.tried.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.is_due.store(!is_all, Ordering::Relaxed);
    }

    /// Returns whether to try now; `true` for one caller only.
    fn begins(&self) -> bool {
        if !self.is_due.load(Ordering::Relaxed) {
            return false;
        }
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = tried.is_none_or(|tried| tried.elapsed() >= RETRY);
        if begins {
            *tried = Some(Instant::now());
        }
        begins
    }
}

impl Union {
    /// Finishes interrupted work in branches that may be changed, and in the layers of theirs that belong to snapshots, unless
    /// that has been done. What cannot be done now stays recorded. No operation may be in progress.
    pub(crate) fn recover(&self) {
        if is_only_described() {
            return;
        }
        let (slots, mut is_all) = (self.branches.slots(), true);
        for layers in slots.chunk_by(Slot::is_beside) {
            let newest = &layers[0].member;
            if !newest.base.is_recovered() && self.is_own(&newest.base) {
                let layers = layers.iter().map(|slot| self.recover_layer(slot));
                // All are tried, whatever the result of the first.
                let is_done = layers.fold(Ok(()), Result::and).is_ok();
                if is_done && self.branches.may_change(newest) {
                    newest.base.note_recovered();
                }
                is_all &= is_done;
            }
        }
        self.recovery.note(is_all);
    }

    /// Like [`Union::recover`], for one layer. In layers of snapshots, only the state directories contain anything to be
    /// undone.
    fn recover_layer(&self, Slot { member, .. }: &Slot) -> Result<()> {
        if !member.work.exists() {
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
    pub(crate) fn recover_again(&self, member: &Member) {
        member.base.note_unfinished();
        self.recovery.note(false);
    }

    /// Retries unfinished work, if that is due. No operation guard may be held.
    pub(crate) fn recover_late(&self) {
        if self.recovery.begins()
            && let Some(alone) = self.family.write(PATIENCE)
        {
            self.recover();
            // Objects that were removed or renamed that late are looked up again.
            self.branches.note_change();
            self.family.note_change(self);
            drop(alone);
            self.tell_everything_changed();
        }
    }
}
