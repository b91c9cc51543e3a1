//! How many workers wait for a request, and whether one more or one less should.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Idle workers that are kept: enough that a program's requests, with the releases and forgets that follow them in the
/// background, start no threads.
pub(super) const IDLE_WORKERS_MAX: usize = 4;

/// The workers that wait, or will as soon as they have sent a reply. Whoever is counted takes a request or leaves while
/// others are counted, so that a request never comes to nobody.
#[derive(Default)]
pub(super) struct Waiting(AtomicUsize);

impl Waiting {
    /// One more will wait.
    pub(super) fn join(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// One has taken a request, or ends: whether it was the last.
    pub(super) fn part(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Whether more wait than are kept.
    pub(super) fn is_more_than_enough(&self) -> bool {
        self.0.load(Ordering::SeqCst) > IDLE_WORKERS_MAX
    }

    /// Whether one may end because enough others wait. It is no longer counted then: to decide first and to count it off
    /// later would let others rely on it meanwhile.
    pub(super) fn part_if_enough(&self) -> bool {
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
        // One comes back, and is slow to send its reply; meanwhile all others take requests and rely on it.
        waiting.join();
        for _ in 0..IDLE_WORKERS_MAX {
            assert!(!waiting.part(), "one is left");
        }
        assert!(!waiting.part_if_enough(), "the only one left may not end");
        assert!(waiting.part());
    }
}
