//! The lock between operations and changes of the branches: a change waits for the operations in progress, for a limited time,
//! and blocks new ones for moments only. An operation that does not end blocks nobody else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// Initial and maximum time for which new operations are blocked; between two such times they are admitted for as long.
const INITIAL_BLOCK_TIME: Duration = Duration::from_millis(20);
const MAX_BLOCK_TIME: Duration = Duration::from_millis(320);
/// Interval at which the end of all operations is checked.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Held shared by operations, and exclusively to change the branches.
#[derive(Default)]
pub(crate) struct OperationGate {
    /// Nobody ever blocks on it as a writer: that would keep others out for as long.
    lock: RwLock<()>,
    /// Whether new operations are blocked.
    is_blocked: AtomicBool,
    /// Held to set that.
    block_lock: Mutex<()>,
    has_opened: Condvar,
    /// Held by the writer that is waiting: one at a time.
    turn: Mutex<()>,
}

impl OperationGate {
    /// Begins an operation. Must not be called by a holder of an operation guard.
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        if self.is_blocked.load(Ordering::Acquire) {
            let block_lock = self.block_lock.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.has_opened.wait_while(block_lock, |()| self.is_blocked.load(Ordering::Acquire)));
        }
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no operation is in progress, and blocks new ones until the result is dropped; `None` if that takes
    /// longer than `timeout`.
    pub(crate) fn close(&self, timeout: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        let deadline = Instant::now() + timeout;
        let mut block_time = INITIAL_BLOCK_TIME;
        loop {
            if let Some(guard) = self.close_within(block_time) {
                return Some(guard);
            }
            if Instant::now() + block_time >= deadline {
                return None;
            }
            thread::sleep(block_time);
            block_time = MAX_BLOCK_TIME.min(block_time * 2);
        }
    }

    /// Blocks new operations, at most for the given time, until those in progress have ended.
    fn close_within(&self, block_time: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.set_blocked(true);
        let end = Instant::now() + block_time;
        let guard = loop {
            match self.lock.try_write() {
                Ok(guard) => break Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => break Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => break None,
                Err(TryLockError::WouldBlock) => thread::sleep(POLL_INTERVAL),
            }
        };
        self.set_blocked(false);
        guard
    }

    fn set_blocked(&self, is_blocked: bool) {
        let block_lock = self.block_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_blocked.store(is_blocked, Ordering::Release);
        drop(block_lock);
        self.has_opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

    #[test]
    fn change_is_admitted_despite_new_operations() {
        let (gate, is_done) = (OperationGate::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        let _passed = gate.enter();
                        thread::sleep(Duration::from_millis(3));
                    }
                });
            }
            for _ in 0..20 {
                let guard = gate.close(CLOSE_TIMEOUT);
                is_done.store(guard.is_none(), Ordering::Relaxed);
                assert!(guard.is_some(), "there is always an operation under way");
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn stuck_operation_does_not_block_others() {
        let gate = OperationGate::default();
        let stuck = gate.enter();
        thread::scope(|scope| {
            let change = scope.spawn(|| gate.close(CLOSE_TIMEOUT).is_some());
            let mut longest = Duration::ZERO;
            while !change.is_finished() {
                let begin = Instant::now();
                drop(gate.enter());
                longest = longest.max(begin.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            assert!(!change.join().unwrap(), "it was not alone");
            assert!(longest < CLOSE_TIMEOUT / 2, "an operation waited for {longest:?}");
        });
        drop(stuck);
        assert!(gate.close(CLOSE_TIMEOUT).is_some());
    }

    #[test]
    fn concurrent_changes_time_out() {
        let gate = OperationGate::default();
        let guard = gate.close(CLOSE_TIMEOUT).unwrap();
        thread::scope(|scope| {
            assert!(!scope.spawn(|| gate.close(CLOSE_TIMEOUT / 4).is_some()).join().unwrap());
            let second = scope.spawn(|| gate.close(CLOSE_TIMEOUT).is_some());
            thread::sleep(CLOSE_TIMEOUT / 4);
            drop(guard);
            assert!(second.join().unwrap());
        });
    }
}
