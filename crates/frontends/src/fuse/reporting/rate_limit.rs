//! Rate limit for log messages that would be printed at each request.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum interval between two identical messages.
const INTERVAL: Duration = Duration::from_secs(60);

/// The rate limit of one message.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Returns whether the message may be logged now; if so, it counts as logged.
    pub(crate) fn may_say(&self) -> bool {
        self.may_say_at(Instant::now())
    }

    fn may_say_at(&self, now: Instant) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may = said.is_none_or(|said| now.duration_since(said) >= INTERVAL);
        if may {
            *said = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_in_an_interval() {
        let (seldom, now) = (Seldom::default(), Instant::now());
        assert!(seldom.may_say_at(now));
        assert!((0..1000).all(|_| !seldom.may_say_at(now + INTERVAL / 2)));
        assert!(seldom.may_say_at(now + INTERVAL));
        assert!(!seldom.may_say_at(now + INTERVAL));
    }
}
