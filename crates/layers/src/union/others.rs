//! Others: what another union writes to a branch that is only read here, and when that is noticed.
//!
//! What is in a branch is looked for again all the time. What is known of it as a whole (that a union has written to it, that
//! directories were copied there, that files have their data elsewhere) is looked at again here: a few names at its root, once a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Union;

/// For so long what was seen is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// For so long an operation that comes after what others have written waits for those under way.
const SHORTLY: Duration = Duration::from_millis(100);

/// When the branches were last looked at, and what has to be done about what was seen.
#[derive(Default)]
pub(super) struct Others {
    looked: Mutex<Option<Instant>>,
    /// What a branch may be used for depends on what has come to another.
    is_mode_due: AtomicBool,
}

impl Others {
    /// Whether to look now: the caller is the only one that is told so.
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
    /// Looks at the branches that others may write, if it is time to. An operation may have been begun.
    pub(super) fn look_at_others(&self) {
        match self.family.common().filter(|_| self.private.is_some()) {
            // A view reads branches of the mount's union, which has to know first what is in them.
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
            // What cannot be read now is as it was.
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

    /// Has each branch be used only for what it may be after what others have written. No operation has been begun. Where one
    /// does not end it is left for later: nobody waits long for a branch that does not answer.
    pub(super) fn follow_others(&self) {
        if self.others.is_mode_due.load(Ordering::Relaxed) && self.others.is_mode_due.swap(false, Ordering::Relaxed) {
            let is_done = self.change_within(SHORTLY, |_, _| Ok(())).is_ok();
            self.others.is_mode_due.fetch_or(!is_done, Ordering::Relaxed);
        }
    }
}
