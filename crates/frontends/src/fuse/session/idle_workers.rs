//! Number of workers that wait for a request, and whether there should be one more or one less.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of idle workers: enough that a program's requests, with the releases and forgets that follow them in the
/// background, start no threads.
pub(crate) const IDLE_WORKERS_MAX: usize = 4;

/// Counts the workers that wait, or will as soon as they have sent a reply. A counted worker takes a request, or leaves while
/// others are counted, so that a request always finds a worker.
#[derive(Default)]
pub(crate) struct IdleWorkers(AtomicUsize);

impl IdleWorkers {
    /// Counts one more worker that will wait.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a worker that has taken a request, or ends; returns whether it was the last.
    pub(crate) fn remove(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Returns whether more workers wait than are kept.
    pub(crate) fn exceeds_limit(&self) -> bool {
        self.0.load(Ordering::SeqCst) > IDLE_WORKERS_MAX
    }

    /// Removes a worker that may end because enough others wait; returns whether it may. Decision and removal are one step: if
    /// the removal came later, others could rely on the worker meanwhile.
    pub(crate) fn remove_if_enough(&self) -> bool {
        let one_less = |count: usize| (count > IDLE_WORKERS_MAX).then(|| count - 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_workers(count: usize) -> IdleWorkers {
        IdleWorkers(AtomicUsize::new(count))
    }

    #[test]
    fn last_worker_to_take_a_request_is_reported() {
        let workers = idle_workers(0);
        workers.add();
        workers.add();
        assert!(!workers.remove());
        assert!(workers.remove());
    }

    #[test]
    fn idle_limit_is_kept_when_all_could_end() {
        let workers = idle_workers(0);
        (0..10).for_each(|_| workers.add());
        let ended = (0..10).filter(|_| workers.remove_if_enough()).count();
        assert_eq!(ended, 10 - IDLE_WORKERS_MAX);
    }

    #[test]
    fn counted_worker_does_not_end() {
        let workers = idle_workers(IDLE_WORKERS_MAX);
        // One finishes a request, and is slow to send its reply; meanwhile all others take requests and rely on it.
        workers.add();
        for _ in 0..IDLE_WORKERS_MAX {
            assert!(!workers.remove(), "one is left");
        }
        assert!(!workers.remove_if_enough(), "the only one left may not end");
        assert!(workers.remove());
    }
}
