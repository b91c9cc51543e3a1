//! When interrupted work in the branches is to be finished, as far as that has not been possible.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after which a failed recovery is retried, by an operation that changes something.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Whether recovery is incomplete, and when it was last tried.
#[derive(Default)]
pub(crate) struct RecoverySchedule {
    is_due: AtomicBool,
    last_attempt: Mutex<Option<Instant>>,
}

impl RecoverySchedule {
    /// Records an attempt, and whether nothing is left to do.
    pub(crate) fn record_attempt(&self, is_complete: bool) {
        *self.last_attempt.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.is_due.store(!is_complete, Ordering::Relaxed);
    }

    /// Returns whether to try now; `true` for one caller only.
    pub(crate) fn begin_retry(&self) -> bool {
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
