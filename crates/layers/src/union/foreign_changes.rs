//! Changes that another union makes to a branch that is read-only here, and when they are detected.
//!
//! The contents of a branch are looked up again all the time. What is cached for the branch as a whole (that a union has
//! written to it, that directories were copied there, that files have their data elsewhere) is checked here: a few names at its
//! root, once a second.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::state::Union;

/// Upper bound on how long an operation that applies others' changes waits for those in progress.
const MODE_CHANGE_TIMEOUT: Duration = Duration::from_millis(100);

impl Union {
    /// Checks the branches that others may write, if it is time. The caller may hold an operation guard.
    pub(crate) fn check_foreign_changes(&self) {
        match self.mount_state.common_union().filter(|_| self.view_state.is_some()) {
            // A view reads branches of the mount's union, which has to check them first.
            Some(common) => common.check_foreign_branches(),
            None => self.check_foreign_branches(),
        }
    }

    fn check_foreign_branches(&self) {
        if !self.foreign_changes.begin_check() {
            return;
        }
        let slots = self.branches.slots();
        let read = slots.iter().map(|slot| &slot.member).filter(|member| !member.base.is_claimed());
        let mut is_new = false;
        for member in read {
            let had_metacopies = member.work.has_metacopies();
            // A branch that cannot be read now counts as unchanged.
            is_new |= member.work.reread().unwrap_or(false);
            if member.work.has_metacopies() != had_metacopies {
                self.foreign_changes.is_mode_update_due.store(true, Ordering::Relaxed);
            }
        }
        if is_new {
            self.branches.bump_generation();
            self.invalidate_views();
        }
    }

    /// Restricts each branch's mode to what others' changes allow. No operation guard may be held. If an operation does not end
    /// this is postponed: nobody waits long for a branch that does not respond.
    pub(crate) fn apply_foreign_changes(&self) {
        if self.foreign_changes.is_mode_update_due.load(Ordering::Relaxed)
            && self.foreign_changes.is_mode_update_due.swap(false, Ordering::Relaxed)
        {
            let is_done = self.change_within(MODE_CHANGE_TIMEOUT, |_, _| Ok(())).is_ok();
            self.foreign_changes.is_mode_update_due.fetch_or(!is_done, Ordering::Relaxed);
        }
    }
}
