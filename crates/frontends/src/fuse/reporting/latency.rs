//! Request latencies: a histogram with a resolution of 1 %.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Latencies of requests in the server: from when each was received until its reply was complete. The resolution is 1 %, or 64
/// ns.
#[derive(Clone, Debug)]
pub struct LatencyHistogram(Histogram<u64>);

/// Shortest latency that is distinguished, in nanoseconds.
const SHORTEST_LATENCY_NS: u64 = 64;
/// Longest latency with a preallocated bucket, in nanoseconds; buckets for longer ones are allocated as they occur.
const PREALLOCATED_LATENCY_NS: u64 = 1_000_000;
/// Precision: two decimal digits.
const SIGNIFICANT_DIGITS: u8 = 2;

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        let mut histogram =
            Histogram::new_with_bounds(SHORTEST_LATENCY_NS, PREALLOCATED_LATENCY_NS, SIGNIFICANT_DIGITS)
                .expect("the bounds are valid");
        histogram.auto(true);
        LatencyHistogram(histogram)
    }
}

impl LatencyHistogram {
    /// Records one request.
    pub(crate) fn record(&mut self, time: Duration) {
        self.record_several(nanoseconds(time), 1);
    }

    fn record_several(&mut self, nanoseconds: u64, requests: u64) {
        // Only a duration of centuries does not fit.
        let _ = self.0.record_n(nanoseconds, requests);
    }

    /// Returns the non-empty buckets: the nanoseconds at the middle of each, and its number of requests.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let middle = |nanoseconds| self.0.median_equivalent(nanoseconds);
        self.0.iter_recorded().map(|step| (middle(step.value_iterated_to()), step.count_at_value())).collect()
    }

    /// Creates a histogram from [`LatencyHistogram::buckets`].
    pub fn from_buckets(buckets: &[(u64, u64)]) -> LatencyHistogram {
        let mut times = LatencyHistogram::default();
        buckets.iter().for_each(|(nanoseconds, requests)| times.record_several(*nanoseconds, *requests));
        times
    }

    /// Adds the requests of another histogram.
    pub fn add(&mut self, others: &LatencyHistogram) {
        // The histogram grows for longer ones, so that they always fit.
        let _ = self.0.add(&others.0);
    }

    /// Returns the requests recorded since an earlier state of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &LatencyHistogram) -> LatencyHistogram {
        let mut later = self.0.clone();
        match later.subtract(&earlier.0) {
            Ok(()) => LatencyHistogram(later),
            // It was not an earlier state: counting was restarted.
            Err(_) => self.clone(),
        }
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.0.len()
    }

    /// Returns the sum of all latencies.
    pub fn total(&self) -> Duration {
        Duration::from_nanos((self.0.mean() * self.0.len() as f64) as u64)
    }

    /// Returns the arithmetic mean; zero if there are no requests.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }

    /// Returns the latency that this fraction of the requests (0 to 1) did not exceed; zero if there are no requests.
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(part))
    }

    /// Returns the maximum; zero if there are no requests.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// Returns the number of requests that took no longer than `limit`.
    pub fn count_up_to(&self, limit: Duration) -> u64 {
        self.0.count_between(0, nanoseconds(limit))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(microseconds: impl IntoIterator<Item = u64>) -> LatencyHistogram {
        let mut times = LatencyHistogram::default();
        microseconds.into_iter().for_each(|time| times.record(Duration::from_micros(time)));
        times
    }

    fn is_about(found: Duration, microseconds: f64) -> bool {
        (found.as_nanos() as f64 / 1_000.0 / microseconds - 1.0).abs() < 0.011
    }

    #[test]
    fn quantiles_are_right_to_one_percent() {
        let times = times((1..=10_000).map(|step| step * 7));
        assert_eq!(times.requests(), 10_000);
        for (part, expected) in [(0.5, 35_000.0), (0.9, 63_000.0), (0.99, 69_300.0), (1.0, 70_000.0)] {
            assert!(is_about(times.quantile(part), expected), "{part}: {:?}", times.quantile(part));
        }
        assert!(is_about(times.mean(), 35_003.5) && is_about(times.max(), 70_000.0));
        assert!(is_about(times.total(), 350_035_000.0), "{:?}", times.total());
        assert!(times.count_up_to(Duration::from_millis(35)).abs_diff(5_000) < 60);
    }

    #[test]
    fn empty_histogram_is_zero() {
        let times = LatencyHistogram::default();
        assert_eq!((times.requests(), times.mean(), times.quantile(0.99)), (0, Duration::ZERO, Duration::ZERO));
        assert_eq!((times.max(), times.total(), times.count_up_to(Duration::MAX)), (Duration::ZERO, Duration::ZERO, 0));
    }

    #[test]
    fn extreme_latencies_are_recorded() {
        let mut times = LatencyHistogram::default();
        times.record(Duration::from_secs(30_000));
        times.record(Duration::from_nanos(1));
        assert!(is_about(times.max(), 3e10));
        assert!(times.quantile(0.5) <= Duration::from_nanos(SHORTEST_LATENCY_NS));
    }

    #[test]
    fn later_requests_are_the_difference() {
        let before = times([10, 20, 3_000_000]);
        let mut after = before.clone();
        after.add(&times([20, 500]));
        let sent = LatencyHistogram::from_buckets(&after.buckets());
        assert_eq!(sent.buckets(), after.buckets());
        let since = sent.since(&before);
        assert_eq!(since.requests(), 2);
        assert!(is_about(since.max(), 500.0), "{:?}", since.max());
        assert_eq!(times([5]).since(&before).requests(), 1, "of a count that began again, all");
    }
}
