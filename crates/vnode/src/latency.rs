//! Latency: how long operations of one kind take at present.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Average latency of recent operations, such as those on a branch, in microseconds.
///
/// The moving average is exponential: each operation moves it by a quarter of the difference to its own latency, so that an
/// operation counts about a twentieth as much after ten more. Rounded up, it starts at 0 and reaches any constant latency from
/// below, but from above only to within 3 microseconds.
#[derive(Debug, Default)]
pub struct Latency(AtomicU32);

impl Latency {
    /// Runs an operation, and records how long it takes.
    pub fn measure<T>(&self, operation: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let result = operation();
        self.record(begin.elapsed());
        result
    }

    /// Returns the average in microseconds; 0 if nothing has been measured.
    pub fn micros(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn record(&self, taken: Duration) {
        let taken = u32::try_from(taken.as_micros()).unwrap_or(u32::MAX);
        // Approximately right even if other threads record values meanwhile.
        let average = self.micros();
        let next =
            if taken > average { average + (taken - average).div_ceil(4) } else { average - (average - taken) / 4 };
        // Written only if needed: many threads read it.
        if next != average {
            self.0.store(next, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(latency: &Latency, micros: u64, times: usize) -> u32 {
        (0..times).for_each(|_| latency.record(Duration::from_micros(micros)));
        latency.micros()
    }

    #[test]
    fn each_operation_moves_the_average_by_a_quarter_of_the_difference() {
        let latency = Latency::default();
        assert_eq!(latency.micros(), 0);
        assert_eq!([record(&latency, 400, 1), record(&latency, 400, 1), record(&latency, 15, 1)], [100, 175, 135]);
    }

    #[test]
    fn the_average_follows_constant_latencies() {
        let latency = Latency::default();
        assert_eq!(record(&latency, 1, 1), 1, "short operations count too");
        assert_eq!(record(&latency, 2_000, 100), 2_000);
        assert_eq!(record(&latency, 10, 100), 13);
        assert_eq!(record(&latency, 0, 100), 3);
    }

    #[test]
    fn recent_operations_count_more() {
        let latency = Latency::default();
        record(&latency, 1_000, 100);
        assert!(record(&latency, 0, 8) < 110);
        assert!(record(&latency, 1_000, 8) > 890);
    }

    #[test]
    fn the_longest_latency_is_bounded() {
        let latency = Latency::default();
        (0..100).for_each(|_| latency.record(Duration::MAX));
        assert_eq!(latency.micros(), u32::MAX);
        assert_eq!(record(&latency, 0, 1), u32::MAX - u32::MAX / 4);
    }

    #[test]
    fn operations_are_measured() {
        let latency = Latency::default();
        let operation = || {
            std::thread::sleep(Duration::from_millis(2));
            7
        };
        assert_eq!(latency.measure(operation), 7);
        assert!(latency.micros() >= 500, "{}", latency.micros());
    }
}
