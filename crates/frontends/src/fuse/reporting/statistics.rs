//! Statistics: the number of requests per operation, how many failed, and their latency; and for a sample of them, how the
//! time divides between the parts of the stack.
//!
//! They are counted in several slots, so that workers on different CPUs do not write to the same cache lines.

use super::latency::LatencyHistogram;
use crate::fuse::protocol::wire::Opcode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Statistics of one operation since the mount.
#[derive(Clone, Debug)]
pub struct OperationStatistics {
    /// The operation, as named by Linux: `LOOKUP`, `READ`.
    pub operation: &'static str,
    /// Number of requests that failed.
    pub failures: u64,
    /// Latency of requests, including failed ones.
    pub times: LatencyHistogram,
}

/// Time that a part of the stack has taken for the sampled requests, one of [`REQUESTS_PER_SAMPLE`].
#[derive(Clone, Debug)]
pub struct PartStatistics {
    /// [`FRONT_END`], or the kind of a layer or a base, as in a stack expression. Parts of the same kind are counted together.
    pub part: &'static str,
    /// Time spent on each of the sampled requests that reached it, without the parts below it. The time for dropping a
    /// resource counts for its last user.
    pub times: LatencyHistogram,
}

/// The name of this front end among the parts of a stack.
pub const FRONT_END: &str = "fuse";

/// One in this number of requests is sampled. A prime, so that no pattern of requests aligns with it.
pub const REQUESTS_PER_SAMPLE: u32 = 61;

/// All counters.
#[derive(Debug)]
pub(crate) struct Statistics {
    slots: Vec<CounterSlot>,
    next: AtomicUsize,
}

/// The counters of some of the workers, aligned so that they share no cache line with others.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CounterSlot(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// By operation number; operations that have not occurred are missing.
    operations: Vec<Option<OperationCount>>,
    /// In the order of their first request.
    parts: Vec<PartStatistics>,
}

#[derive(Debug, Default)]
struct OperationCount {
    failures: u64,
    times: LatencyHistogram,
}

/// Maximum number of slots. On larger machines workers share slots; each takes some ten kilobytes per operation.
const SLOTS_MAX: usize = 16;

impl Statistics {
    pub(crate) fn new() -> Statistics {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let slots = (0..cpus.min(SLOTS_MAX)).map(|_| CounterSlot(Mutex::new(Counts::none()))).collect();
        Statistics { slots, next: AtomicUsize::new(0) }
    }

    /// Returns the slot of the next worker.
    pub(crate) fn next_slot(&self) -> &CounterSlot {
        &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len()]
    }

    /// Returns the operations that occurred, in order of their numbers. No worker waits for longer than its own slot is read.
    pub(crate) fn operations(&self) -> Vec<OperationStatistics> {
        let mut sums = Counts::none().operations;
        for slot in &self.slots {
            for (sum, count) in sums.iter_mut().zip(&slot.lock().operations) {
                let Some(count) = count else { continue };
                let sum = sum.get_or_insert_default();
                sum.failures += count.failures;
                sum.times.add(&count.times);
            }
        }
        let named = |(number, sum): (usize, Option<OperationCount>)| {
            let (operation, OperationCount { failures, times }) = (Opcode::from_number(number as u32)?.name(), sum?);
            Some(OperationStatistics { operation, failures, times })
        };
        sums.into_iter().enumerate().filter_map(named).collect()
    }

    /// Returns the parts of the stack that requests have reached, in no particular order.
    pub(crate) fn parts(&self) -> Vec<PartStatistics> {
        let mut sums = Counts::none();
        for slot in &self.slots {
            for PartStatistics { part, times } in &slot.lock().parts {
                sums.part(part).add(times);
            }
        }
        sums.parts
    }
}

impl Counts {
    fn none() -> Counts {
        Counts { operations: (0..Opcode::COUNT).map(|_| None).collect(), parts: Vec::new() }
    }

    fn part(&mut self, part: &'static str) -> &mut LatencyHistogram {
        let slot = self.parts.iter().position(|known| known.part == part).unwrap_or_else(|| {
            self.parts.push(PartStatistics { part, times: LatencyHistogram::default() });
            self.parts.len() - 1
        });
        &mut self.parts[slot].times
    }
}

impl CounterSlot {
    /// Counts a request.
    pub(crate) fn count(&self, opcode: Opcode, failed: bool, time: Duration) {
        let mut counts = self.lock();
        let count = counts.operations[opcode as usize].get_or_insert_default();
        count.failures += u64::from(failed);
        count.times.record(time);
    }

    /// Counts what each part took of a sampled request.
    pub(crate) fn count_parts(&self, parts: &[(&'static str, Duration)]) {
        let mut counts = self.lock();
        parts.iter().for_each(|(part, time)| counts.part(part).record(*time));
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
        let workers = 3 * SLOTS_MAX as u64;
        for worker in 0..workers {
            let slot = statistics.next_slot();
            slot.count(Opcode::Read, false, Duration::from_micros(10));
            slot.count(Opcode::Read, worker % 2 == 0, Duration::from_micros(1_000 + worker));
        }
        let found = statistics.operations();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].operation, found[0].failures, found[0].times.requests()),
            ("READ", workers / 2, 2 * workers)
        );
        assert!(found[0].times.quantile(0.25) < Duration::from_micros(11));
        assert!(found[0].times.max() >= Duration::from_micros(1_000));
    }

    #[test]
    fn parts_of_all_workers_are_added_up() {
        let statistics = Statistics::new();
        for worker in 0..2 * SLOTS_MAX as u64 {
            let parts = [(FRONT_END, Duration::from_micros(1)), ("dir", Duration::from_micros(10))];
            // Not all requests reach all parts, nor the same part first.
            statistics.next_slot().count_parts(if worker % 2 == 0 { &parts } else { &parts[1..] });
        }
        let parts = statistics.parts();
        let of = |part| parts.iter().find(|found| found.part == part).map(|found| found.times.requests());
        assert_eq!((parts.len(), of(FRONT_END), of("dir")), (2, Some(SLOTS_MAX as u64), Some(2 * SLOTS_MAX as u64)));
    }
}
