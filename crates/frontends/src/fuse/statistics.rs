//! Statistics: the requests of each operation, how many failed, and how long they took.
//!
//! They are counted in several places, so that workers on different processors do not write to the same memory.

use super::times::Times;
use super::wire::Opcode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The requests of one operation since the mount.
#[derive(Clone, Debug)]
pub struct OperationStatistics {
    /// The operation, as Linux names it: `LOOKUP`, `READ`.
    pub operation: &'static str,
    /// Requests that failed.
    pub failures: u64,
    /// How long requests took, failed ones included.
    pub times: Times,
}

/// All that is counted.
#[derive(Debug)]
pub(crate) struct Statistics {
    places: Vec<Place>,
    next: AtomicUsize,
}

/// Where some of the workers count. Apart from others by the size of what processors exchange.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Place(Mutex<Counts>);

/// By the operation's number; those that have not occurred are missing.
type Counts = Vec<Option<Count>>;

#[derive(Debug, Default)]
struct Count {
    failures: u64,
    times: Times,
}

/// On larger machines workers share places; each takes some ten kilobytes for an operation.
const PLACES_MAX: usize = 16;

impl Statistics {
    pub(crate) fn new() -> Statistics {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let places = (0..processors.min(PLACES_MAX)).map(|_| Place(Mutex::new(no_counts()))).collect();
        Statistics { places, next: AtomicUsize::new(0) }
    }

    /// Where the next worker counts.
    pub(crate) fn place(&self) -> &Place {
        &self.places[self.next.fetch_add(1, Ordering::Relaxed) % self.places.len()]
    }

    /// The operations that occurred, in the order of their numbers. No worker waits for longer than its own place is read.
    pub(crate) fn snapshot(&self) -> Vec<OperationStatistics> {
        let mut sums = no_counts();
        for place in &self.places {
            for (sum, count) in sums.iter_mut().zip(place.lock().iter()) {
                let Some(count) = count else { continue };
                let sum = sum.get_or_insert_default();
                sum.failures += count.failures;
                sum.times.add(&count.times);
            }
        }
        let named = |(number, sum): (usize, Option<Count>)| {
            let (operation, Count { failures, times }) = (Opcode::from_number(number as u32)?.name(), sum?);
            Some(OperationStatistics { operation, failures, times })
        };
        sums.into_iter().enumerate().filter_map(named).collect()
    }
}

fn no_counts() -> Counts {
    (0..Opcode::COUNT).map(|_| None).collect()
}

impl Place {
    /// Counts a request.
    pub(crate) fn count(&self, opcode: Opcode, failed: bool, time: Duration) {
        let mut counts = self.lock();
        let count = counts[opcode as usize].get_or_insert_default();
        count.failures += u64::from(failed);
        count.times.record(time);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_count_together_and_only_what_occurred() {
        let statistics = Statistics::new();
        let workers = 3 * PLACES_MAX as u64;
        for worker in 0..workers {
            let place = statistics.place();
            place.count(Opcode::Read, false, Duration::from_micros(10));
            place.count(Opcode::Read, worker % 2 == 0, Duration::from_micros(1_000 + worker));
        }
        let found = statistics.snapshot();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].operation, found[0].failures, found[0].times.requests()),
            ("READ", workers / 2, 2 * workers)
        );
        assert!(found[0].times.quantile(0.25) < Duration::from_micros(11));
        assert!(found[0].times.longest() >= Duration::from_micros(1_000));
    }
}
