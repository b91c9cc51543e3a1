//! When the branches are checked for changes that another union makes, and what is to be done about them.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time for which the last check is trusted.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time of the last check of the branches, and actions required by its result.
#[derive(Default)]
pub(crate) struct ForeignChanges {
    last_check: Mutex<Option<Instant>>,
    /// Whether modes have to be set again, since they depend on what others have written to another branch.
    pub(crate) is_mode_update_due: AtomicBool,
}

impl ForeignChanges {
    /// Returns whether to check now; `true` for one caller only.
    pub(crate) fn begin_check(&self) -> bool {
        let mut last_check = self.last_check.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last_check.is_none_or(|last_check| last_check.elapsed() >= CHECK_INTERVAL);
        if is_due {
            *last_check = Some(Instant::now());
        }
        is_due
    }
}
