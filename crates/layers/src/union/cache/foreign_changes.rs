//! Changes that another union makes to a branch that is read-only here, and when they are detected.
//!
//! The contents of a branch are looked up again all the time. What is cached for the branch as a whole (that a union has
//! written to it, that directories were copied there, that files have their data elsewhere) is checked here: a few names at its
//! root, once a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::union::state::Union;

/// Time for which the last check is trusted.
const BELIEVED: Duration = Duration::from_secs(1);

/// Upper bound on how long an operation that applies others' changes waits for those in progress.
const SHORTLY: Duration = Duration::from_millis(100);

/// Time of the last check of the branches, and actions required by its result.
#[derive(Default)]
pub(crate) struct Others {
    looked: Mutex<Option<Instant>>,
    /// Whether modes have to be set again, since they depend on what others have written to another branch.
    is_mode_due: AtomicBool,
}

impl Others {
    /// Returns whether to check now; `true` for one caller only.
    fn begins(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = looked.is_none_or(|looked| looked.elapsed() >= BELIEVED);
        if begins {
            *looked = Some(Instant::now());
        }
        begins
    }
}

impl Union {
    /// Checks the branches that others may write, if it is time. The caller may hold an operation guard.
    pub(crate) fn look_at_others(&self) {
        match self.family.common().filter(|_| self.private.is_some()) {
            // A view reads branches of the mount's union, which has to check them first.
            Some(common) => common.look_at_branches(),
            None => self.look_at_branches(),
        }
    }

    fn look_at_branches(&self) {
        if !self.others.begins() {
            return;
        }
        let slots = self.branches.slots();
        let read = slots.iter().map(|slot| &slot.member).filter(|member| !member.base.is_claimed());
        let mut is_new = false;
        for member in read {
            let had_metacopies = member.work.has_metacopies();
            // A branch that cannot be read now counts as unchanged.
            is_new |= member.work.look_again().unwrap_or(false);
            if member.work.has_metacopies() != had_metacopies {
                self.others.is_mode_due.store(true, Ordering::Relaxed);
            }
        }
        if is_new {
            self.branches.note_change();
            self.family.note_change(self);
        }
    }

    /// Restricts each branch's mode to what others' changes allow. No operation guard may be held. If an operation does not end
    /// this is postponed: nobody waits long for a branch that does not respond.
    pub(crate) fn follow_others(&self) {
        if self.others.is_mode_due.load(Ordering::Relaxed) && self.others.is_mode_due.swap(false, Ordering::Relaxed) {
            let is_done = self.change_within(SHORTLY, |_, _| Ok(())).is_ok();
            self.others.is_mode_due.fetch_or(!is_done, Ordering::Relaxed);
        }
    }
}
