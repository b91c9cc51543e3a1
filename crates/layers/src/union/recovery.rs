//! Recovery: what an earlier server left half-way in branches that may be changed is finished, once for each branch, and as soon as
//! that can be done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use vnode::Result;

use super::Union;
use super::branches::{Member, Slot};
use super::claim::is_only_described;

/// What could not be finished is tried again after this time, by an operation that changes something.
const RETRY: Duration = Duration::from_secs(1);
/// For so long that waits for the operations under way.
const PATIENCE: Duration = Duration::from_millis(100);

/// Whether something is still to be finished, and when that was last tried.
#[derive(Default)]
pub(super) struct Recovery {
    is_due: AtomicBool,
    tried: Mutex<Option<Instant>>,
}

impl Recovery {
    fn note(&self, is_all: bool) {
        *self.tried.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.is_due.store(!is_all, Ordering::Relaxed);
    }

    /// Whether it is to be tried now: the caller is the only one that is told so.
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
    /// Finishes what was stopped half-way in branches that may be changed, and in the layers that snapshots keep of them, where that
    /// has not been done. What cannot be done now stays recorded. No operation is under way.
    pub(super) fn recover(&self) {
        if is_only_described() {
            return;
        }
        let (slots, mut is_all) = (self.branches.slots(), true);
        for layers in slots.chunk_by(Slot::is_beside) {
            let newest = &layers[0].member;
            if !newest.base.is_recovered() && self.is_own(&newest.base) {
                let layers = layers.iter().map(|slot| self.recover_layer(slot));
                // All are tried, whatever comes of the first.
                let is_done = layers.fold(Ok(()), Result::and).is_ok();
                if is_done && self.branches.may_change(newest) {
                    newest.base.note_recovered();
                }
                is_all &= is_done;
            }
        }
        self.recovery.note(is_all);
    }

    /// The same in one layer. In those that snapshots keep only the union's own directories have something to be undone.
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

    /// Has what was recorded in a branch, and could not be done, tried again.
    pub(super) fn recover_again(&self, member: &Member) {
        member.base.note_unfinished();
        self.recovery.note(false);
    }

    /// Tries once more what could not be finished, if that is due. No operation has been begun.
    pub(super) fn recover_late(&self) {
        if self.recovery.begins()
            && let Some(alone) = self.family.write(PATIENCE)
        {
            self.recover();
            // What was removed or renamed so late is looked for again.
            self.branches.note_change();
            self.family.note_change(self);
            drop(alone);
            self.tell_everything_changed();
        }
    }
}
