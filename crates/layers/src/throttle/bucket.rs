//! A token bucket: the bytes that may pass, refilled at a constant rate.

use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vnode::{Cancellation, Result};

/// Time for which an idle bucket fills: as many bytes pass at once after a pause.
const BURST: Duration = Duration::from_millis(100);

/// Bytes that pass in the order in which they are requested, so that no request is overtaken, however large it is.
///
/// Instead of a number of tokens, the bucket has the time at which all bytes requested so far are paid for: a request reserves the
/// time after it, and then waits until its own begins, without a lock.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    bytes_per_second: NonZeroU64,
    begin: Instant,
    /// Time since `begin` at which the next request may pass.
    free_at: Mutex<Duration>,
}

impl TokenBucket {
    pub(crate) fn new(bytes_per_second: NonZeroU64) -> Self {
        Self { bytes_per_second, begin: Instant::now(), free_at: Mutex::default() }
    }

    /// Waits until the bytes may pass.
    ///
    /// # Errors
    /// As [`Cancellation::sleep`]: the bytes are then not counted.
    pub(crate) fn take(&self, cancellation: &Cancellation, bytes: u64) -> Result<()> {
        let wait = self.reserve(self.begin.elapsed(), bytes);
        if wait.is_zero() {
            return Ok(());
        }
        cancellation.sleep(wait).inspect_err(|_| self.give_back(bytes))
    }

    /// Gives back bytes that were taken and did not pass, such as those of a read beyond the end of a file.
    pub(crate) fn give_back(&self, bytes: u64) {
        let mut free_at = self.lock();
        *free_at = free_at.saturating_sub(self.time_for(bytes));
    }

    /// Counts the bytes of a request at the time `now` since `begin`, and returns how long it has to wait.
    fn reserve(&self, now: Duration, bytes: u64) -> Duration {
        let mut free_at = self.lock();
        let begin = (*free_at).max(now.saturating_sub(BURST));
        *free_at = begin.saturating_add(self.time_for(bytes));
        begin.saturating_sub(now)
    }

    /// Returns the time in which as many bytes pass.
    fn time_for(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, Duration> {
        self.free_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use vnode::{CancellationSource, Errno};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bucket(bytes_per_second: u64) -> TokenBucket {
        TokenBucket::new(NonZeroU64::new(bytes_per_second).unwrap())
    }

    #[test]
    fn requests_wait_for_what_was_requested_before() {
        let bucket = bucket(1000);
        assert_eq!(bucket.reserve(SECOND, 500), Duration::ZERO, "the first passes");
        // The time of an idle bucket counts, up to the burst.
        assert_eq!(bucket.reserve(SECOND, 2000), Duration::from_millis(400));
        assert_eq!(bucket.reserve(SECOND, 1), Duration::from_millis(2400));
        assert_eq!(bucket.reserve(SECOND * 100, 100), Duration::ZERO);
        assert_eq!(bucket.reserve(SECOND * 100, 100), Duration::ZERO, "as much as the burst");
        assert_eq!(bucket.reserve(SECOND * 100, 100), Duration::from_millis(100));
    }

    #[test]
    fn bytes_of_a_cancelled_request_do_not_count() {
        let bucket = bucket(1);
        let source = CancellationSource::new();
        let cancellation = source.begin(2, 0);
        bucket.take(&cancellation, 1000).unwrap();
        source.cancel(2);
        let before = *bucket.lock();
        assert_eq!(bucket.take(&cancellation, 1_000_000), Err(Errno::EINTR));
        assert_eq!(*bucket.lock(), before);
    }

    #[test]
    fn bytes_given_back_can_be_taken_again() {
        let bucket = bucket(1000);
        bucket.reserve(SECOND, 5000);
        bucket.give_back(4900);
        assert_eq!(bucket.reserve(SECOND, 1), Duration::ZERO);
        bucket.give_back(u64::MAX);
        assert_eq!(bucket.reserve(Duration::ZERO, u64::MAX), Duration::ZERO);
        assert!(bucket.reserve(Duration::ZERO, u64::MAX) > SECOND * 1_000_000, "no overflow");
        bucket.reserve(Duration::ZERO, u64::MAX);
    }
}
