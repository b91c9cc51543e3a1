//! Interrupts: finds the request to which an INTERRUPT of the kernel refers.
//!
//! A signal cancels what the caller waits for only if it kills the caller, which [`vnode::Cancellation`] determines: the
//! kernel reports any signal, including those that the caller handles, and no further one for the same request. Waits for
//! locks end at any signal, see [`super::locks`].
//!
//! The kernel sends an interrupt after its request, but another worker may get to it first. The kernel would resend the
//! interrupt if the reply were `EAGAIN`, but only if the reply goes through the descriptor from which the request was read,
//! and never for a request of a ring. So an interrupt that comes first is kept for a while.

use super::protocol::request::{Operation, Request};
use super::protocol::wire;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vnode::{Cancellation, CancellationSource};

/// How long an interrupt waits for its request: long enough for a worker that has read the request and does not get to run at
/// once. Most waiting interrupts are too late.
const EARLY_INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of waiting interrupts.
const EARLY_INTERRUPTS_MAX: usize = 256;

/// The requests that workers are serving.
#[derive(Default)]
pub(crate) struct Interrupts {
    /// One cancellation source per worker.
    sources: Mutex<Vec<Arc<CancellationSource>>>,
    /// Interrupts whose requests have not been seen, oldest first.
    early: Mutex<VecDeque<(Instant, u64)>>,
    /// Length of `early`.
    early_count: AtomicUsize,
}

/// The request that a worker is serving.
pub(crate) struct CurrentRequest<'a> {
    interrupts: &'a Interrupts,
    source: Arc<CancellationSource>,
}

impl Interrupts {
    /// Adds a worker, until the result is dropped.
    pub(crate) fn join(&self) -> CurrentRequest<'_> {
        let source = Arc::new(CancellationSource::new());
        lock(&self.sources).push(Arc::clone(&source));
        CurrentRequest { interrupts: self, source }
    }

    /// Handles an interrupt: a signal was sent to the caller of this request.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut early = self.lock_early();
        // Recorded before the request is searched for: see `CurrentRequest::begin`.
        early.push_back((Instant::now(), unique));
        if early.len() > EARLY_INTERRUPTS_MAX {
            early.pop_front();
        }
        self.early_count.store(early.len(), Ordering::SeqCst);
        if lock(&self.sources).iter().any(|source| source.signal(unique)) {
            early.pop_back();
            self.early_count.store(early.len(), Ordering::SeqCst);
        }
    }

    /// Returns whether an interrupt has come before its request, and removes it.
    fn take_early(&self, unique: u64) -> bool {
        let mut early = self.lock_early();
        let position = early.iter().position(|(_, early)| *early == unique);
        position.map(|position| early.remove(position));
        self.early_count.store(early.len(), Ordering::SeqCst);
        position.is_some()
    }

    /// Returns the early interrupts, without those that are too old.
    fn lock_early(&self) -> MutexGuard<'_, VecDeque<(Instant, u64)>> {
        let mut early = lock(&self.early);
        while early.front().is_some_and(|(when, _)| when.elapsed() > EARLY_INTERRUPT_TIMEOUT) {
            early.pop_front();
        }
        early
    }
}

impl CurrentRequest<'_> {
    /// Begins a request; returns what cancels it.
    pub(crate) fn begin(&self, request: &Request<'_>) -> Cancellation {
        if !may_be_cancelled(&request.operation) {
            return Cancellation::default();
        }
        let cancellation = self.source.begin(request.unique, request.pid);
        // Either this sees the recorded interrupt, or `interrupt` sees the request that has begun.
        if self.interrupts.early_count.load(Ordering::SeqCst) > 0 && self.interrupts.take_early(request.unique) {
            self.source.signal(request.unique);
        }
        cancellation
    }

    /// Ends the request.
    pub(crate) fn end(&self) {
        self.source.end();
    }
}

impl Drop for CurrentRequest<'_> {
    fn drop(&mut self) {
        lock(&self.interrupts.sources).retain(|source| !Arc::ptr_eq(source, &self.source));
    }
}

/// Returns whether an operation may be cancelled. Operations that release something may not, since nobody would repeat them,
/// nor may those that the kernel issues on its own: pages that it writes back belong to everybody.
fn may_be_cancelled(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Write { arguments, .. } => arguments.write_flags & wire::WRITE_CACHE == 0,
        Operation::Flush(_)
        | Operation::Release(_)
        | Operation::ReleaseDirectory(_)
        | Operation::Forget { .. }
        | Operation::BatchForget { .. }
        | Operation::Interrupt { .. }
        | Operation::NotifyReply
        | Operation::SyncFs
        | Operation::Init(_)
        | Operation::Destroy => false,
        _ => true,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::protocol::wire::Opcode;
    use std::process::Command;

    /// Returns the id of a process that is gone, killed by a signal.
    fn killed() -> u32 {
        let mut process = Command::new("true").spawn().unwrap();
        process.wait().unwrap();
        process.id()
    }

    fn request(unique: u64, pid: u32, operation: Operation<'_>) -> Request<'_> {
        Request {
            unique,
            node: 1,
            uid: 0,
            gid: 0,
            pid,
            opcode: Opcode::StatFs,
            supplementary_group: None,
            security_contexts: &[],
            cancellation: Cancellation::default(),
            operation,
        }
    }

    #[test]
    fn interrupt_finds_its_request_in_either_order() {
        let (interrupts, pid) = (Interrupts::default(), killed());
        let (one, other) = (interrupts.join(), interrupts.join());
        let first = one.begin(&request(2, pid, Operation::StatFs));
        interrupts.interrupt(6);
        let second = other.begin(&request(4, pid, Operation::StatFs));
        assert!(!first.is_cancelled() && !second.is_cancelled());
        interrupts.interrupt(4);
        assert!(!first.is_cancelled());
        second.sleep(Duration::from_secs(60)).unwrap_err();
        let third = one.begin(&request(6, pid, Operation::StatFs));
        assert!(third.is_cancelled());
        one.end();
        assert!(lock(&interrupts.early).is_empty());
        drop((one, other));
        assert!(lock(&interrupts.sources).is_empty());
    }

    #[test]
    fn releasing_operation_is_not_cancelled() {
        let interrupts = Interrupts::default();
        let worker = interrupts.join();
        let release = || Operation::Release(wire::ReleaseIn::default());
        assert!(!worker.begin(&request(2, killed(), release())).may_come());
        let write = |write_flags| Operation::Write {
            arguments: wire::WriteIn { write_flags, ..Default::default() },
            data: &[],
        };
        assert!(!worker.begin(&request(4, killed(), write(wire::WRITE_CACHE))).may_come());
        assert!(worker.begin(&request(6, killed(), write(0))).may_come());
    }

    #[test]
    fn interrupts_without_a_request_are_bounded() {
        let interrupts = Interrupts::default();
        (1..=2 * EARLY_INTERRUPTS_MAX as u64).for_each(|unique| interrupts.interrupt(unique));
        assert_eq!(lock(&interrupts.early).len(), EARLY_INTERRUPTS_MAX);
        lock(&interrupts.early).iter_mut().for_each(|(when, _)| *when -= 2 * EARLY_INTERRUPT_TIMEOUT);
        assert!(!interrupts.take_early(3));
        assert_eq!(interrupts.early_count.load(Ordering::SeqCst), 0);
    }
}
