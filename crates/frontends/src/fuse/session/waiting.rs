//! Number of workers that wait for a request, and whether there should be one more or one less.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of idle workers: enough that a program's requests, with the releases and forgets that follow them in the
/// background, start no threads.
pub(crate) const IDLE_WORKERS_MAX: usize = 4;

/// Counts the workers that wait, or will as soon as they have sent a reply. A counted worker takes a request, or leaves while
/// others are counted, so that a request always finds a worker.
#[derive(Default)]
pub(crate) struct Waiting(AtomicUsize);

impl Waiting {
    /// Counts one more worker that will wait.
    pub(crate) fn join(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a worker that has taken a request, or ends; returns whether it was the last.
    pub(crate) fn part(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Returns whether more workers wait than are kept.
    pub(crate) fn is_more_than_enough(&self) -> bool {
        self.0.load(Ordering::SeqCst) > IDLE_WORKERS_MAX
    }

    /// Removes a worker that may end because enough others wait; returns whether it may. Decision and removal are one step: if
    /// the removal came later, others could rely on the worker meanwhile.
    pub(crate) fn part_if_enough(&self) -> bool {
        let one_less = |count: usize| (count > IDLE_WORKERS_MAX).then(|| count - 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: usize) -> Waiting {
        Waiting(AtomicUsize::new(count))
    }

    #[test]
    fn the_last_to_take_a_request_is_told() {
        let waiting = of(0);
        waiting.join();
        waiting.join();
        assert!(!waiting.part());
        assert!(waiting.part());
    }

    #[test]
    fn enough_stay_when_all_could_end() {
        let waiting = of(0);
        (0..10).for_each(|_| waiting.join());
        let ended = (0..10).filter(|_| waiting.part_if_enough()).count();
        assert_eq!(ended, 10 - IDLE_WORKERS_MAX);
    }

    #[test]
    fn whoever_is_counted_on_stays() {
        let waiting = of(IDLE_WORKERS_MAX);
        // One finishes a request, and is slow to send its reply; meanwhile all others take requests and rely on it.
        waiting.join();
        for _ in 0..IDLE_WORKERS_MAX {
            assert!(!waiting.part(), "one is left");
        }
        assert!(!waiting.part_if_enough(), "the only one left may not end");
        assert!(waiting.part());
    }
}
