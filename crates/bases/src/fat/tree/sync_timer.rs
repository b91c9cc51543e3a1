//! When changes are brought to the disk without being asked for: soon after the last one, and not long after the first.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time without changes after which a synchronization is due.
const PAUSE: Duration = Duration::from_secs(1);

/// Time after the first change at which a synchronization is due in any case, and interval at which an idle volume is looked at.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// Says when synchronizations are due, to one thread that [waits](SyncTimer::wait) for them.
#[derive(Default)]
pub(crate) struct SyncTimer {
    state: Mutex<TimerState>,
    changed: Condvar,
    /// Number of changes so far.
    changes: AtomicU64,
    /// The thread waits for the next change.
    is_idle: AtomicBool,
}

#[derive(Default)]
struct TimerState {
    is_stopped: bool,
    /// Number of changes when a synchronization was due last.
    seen: u64,
}

impl SyncTimer {
    /// Notes that something was changed.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if self.is_idle.load(Ordering::Acquire) && self.is_idle.swap(false, Ordering::AcqRel) {
            // Under the lock, so that the thread is either before its check or waiting.
            let _state = self.lock();
            self.changed.notify_all();
        }
    }

    /// Ends the waiting, for ever.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Waits until a synchronization may be due. Returns `false` after the timer was stopped.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.lock();
        self.is_idle.store(true, Ordering::Release);
        if self.changes.load(Ordering::Acquire) == state.seen {
            let is_idle = |state: &mut TimerState| !state.is_stopped && self.is_idle.load(Ordering::Acquire);
            let waited = self.changed.wait_timeout_while(state, DELAY_MAX, is_idle);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.is_idle.store(false, Ordering::Release);
        let latest = Instant::now() + DELAY_MAX;
        loop {
            let changes = self.changes.load(Ordering::Acquire);
            let now = Instant::now();
            // Without changes, what is left to write is not urgent, but was left for long enough.
            if state.is_stopped || changes == state.seen || now >= latest {
                break;
            }
            let time = PAUSE.min(latest.duration_since(now));
            let waited = self.changed.wait_timeout_while(state, time, |state| !state.is_stopped);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if self.changes.load(Ordering::Acquire) == changes {
                break;
            }
        }
        state.seen = self.changes.load(Ordering::Acquire);
        !state.is_stopped
    }

    fn lock(&self) -> MutexGuard<'_, TimerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synchronization_is_due_after_a_pause_or_after_the_longest_delay() {
        let timer = SyncTimer::default();
        timer.note_change();
        let begun = Instant::now();
        assert!(timer.wait());
        assert!((PAUSE..DELAY_MAX).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        let (begun, is_due) = (Instant::now(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_due.load(Ordering::Acquire) && begun.elapsed() < 3 * DELAY_MAX {
                    timer.note_change();
                    std::thread::sleep(PAUSE / 20);
                }
            });
            assert!(timer.wait());
            is_due.store(true, Ordering::Release);
        });
        assert!((DELAY_MAX..2 * DELAY_MAX).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        timer.stop();
        assert!(!timer.wait());
    }
}
