//! Rate limit for log messages that would be printed at each request.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum interval between two identical messages.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The rate limit of one message.
#[derive(Debug, Default)]
pub(crate) struct LogRateLimit(Mutex<Option<Instant>>);

impl LogRateLimit {
    /// Returns whether the message may be logged now; if so, it counts as logged.
    pub(crate) fn may_log(&self) -> bool {
        self.may_log_at(Instant::now())
    }

    fn may_log_at(&self, now: Instant) -> bool {
        let mut last_logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may = last_logged.is_none_or(|last_logged| now.duration_since(last_logged) >= LOG_INTERVAL);
        if may {
            *last_logged = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_logged_once_per_interval() {
        let (limit, now) = (LogRateLimit::default(), Instant::now());
        assert!(limit.may_log_at(now));
        assert!((0..1000).all(|_| !limit.may_log_at(now + LOG_INTERVAL / 2)));
        assert!(limit.may_log_at(now + LOG_INTERVAL));
        assert!(!limit.may_log_at(now + LOG_INTERVAL));
    }
}
