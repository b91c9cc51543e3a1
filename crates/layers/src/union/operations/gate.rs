//! The lock between operations and changes of the branches: a change waits for the operations in progress, for a limited time,
//! and blocks new ones for moments only. An operation that does not end blocks nobody else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// Initial and maximum time for which new operations are blocked; between two such times they are admitted for as long.
const FIRST_MOMENT: Duration = Duration::from_millis(20);
const LONGEST_MOMENT: Duration = Duration::from_millis(320);
/// Interval at which the end of all operations is checked.
const LOOK: Duration = Duration::from_micros(200);

/// Held shared by operations, and exclusively to change the branches.
#[derive(Default)]
pub(crate) struct Gate {
    /// Nobody ever blocks on it as a writer: that would keep others out for as long.
    lock: RwLock<()>,
    /// Whether new operations are blocked.
    is_shut: AtomicBool,
    /// Held to set that.
    shutting: Mutex<()>,
    has_opened: Condvar,
    /// Held by the writer that is waiting: one at a time.
    turn: Mutex<()>,
}

impl Gate {
    /// Begins an operation. Must not be called by a holder of an operation guard.
    pub(crate) fn pass(&self) -> RwLockReadGuard<'_, ()> {
        if self.is_shut.load(Ordering::Acquire) {
            let shutting = self.shutting.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.has_opened.wait_while(shutting, |()| self.is_shut.load(Ordering::Acquire)));
        }
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no operation is in progress, and blocks new ones until the result is dropped; `None` if that takes longer
    /// than `patience`.
    pub(crate) fn close(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        let deadline = Instant::now() + patience;
        let mut moment = FIRST_MOMENT;
        loop {
            if let Some(alone) = self.close_within(moment) {
                return Some(alone);
            }
            if Instant::now() + moment >= deadline {
                return None;
            }
            thread::sleep(moment);
            moment = LONGEST_MOMENT.min(moment * 2);
        }
    }

    /// Blocks new operations, at most for the given time, until those in progress have ended.
    fn close_within(&self, moment: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.shut(true);
        let end = Instant::now() + moment;
        let alone = loop {
            match self.lock.try_write() {
                Ok(alone) => break Some(alone),
                Err(TryLockError::Poisoned(poisoned)) => break Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => break None,
                Err(TryLockError::WouldBlock) => thread::sleep(LOOK),
            }
        };
        self.shut(false);
        alone
    }

    fn shut(&self, is_shut: bool) {
        let shutting = self.shutting.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_shut.store(is_shut, Ordering::Release);
        drop(shutting);
        self.has_opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(2);

    #[test]
    fn operations_that_end_make_room_for_a_change_however_many_begin() {
        let (gate, is_done) = (Gate::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        let _passed = gate.pass();
                        thread::sleep(Duration::from_millis(3));
                    }
                });
            }
            for _ in 0..20 {
                let alone = gate.close(SOON);
                is_done.store(alone.is_none(), Ordering::Relaxed);
                assert!(alone.is_some(), "there is always an operation under way");
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn an_operation_that_does_not_end_keeps_nobody_else_out() {
        let gate = Gate::default();
        let stuck = gate.pass();
        thread::scope(|scope| {
            let change = scope.spawn(|| gate.close(SOON).is_some());
            let mut longest = Duration::ZERO;
            while !change.is_finished() {
                let begin = Instant::now();
                drop(gate.pass());
                longest = longest.max(begin.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            assert!(!change.join().unwrap(), "it was not alone");
            assert!(longest < SOON / 2, "an operation waited for {longest:?}");
        });
        drop(stuck);
        assert!(gate.close(SOON).is_some());
    }

    #[test]
    fn changes_wait_for_each_other_for_a_limited_time_too() {
        let gate = Gate::default();
        let alone = gate.close(SOON).unwrap();
        thread::scope(|scope| {
            assert!(!scope.spawn(|| gate.close(SOON / 4).is_some()).join().unwrap());
            let second = scope.spawn(|| gate.close(SOON).is_some());
            thread::sleep(SOON / 4);
            drop(alone);
            assert!(second.join().unwrap());
        });
    }
}
