//! Times: when an object was created, read and changed, and which event updates which time.

use vnode::Timestamp;

/// The timestamps of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
    pub(crate) btime: Timestamp,
}

impl Times {
    /// Returns the times of an object that is created now.
    pub(crate) fn now() -> Self {
        let now = Timestamp::now();
        Self { atime: now, mtime: now, ctime: now, btime: now }
    }

    /// Updates the times after a change of data or entries.
    pub(crate) fn modified(&mut self) {
        self.mtime = Timestamp::now();
        self.changed_at(self.mtime);
    }

    /// Updates the time after a change of attributes.
    pub(crate) fn changed(&mut self) {
        self.changed_at(Timestamp::now());
    }

    /// Sets the change time. It is later after each change, even if the clock is not: it shows that there was one.
    pub(crate) fn changed_at(&mut self, now: Timestamp) {
        self.ctime = now.max(just_after(self.ctime));
    }

    /// Returns whether the rules of `relatime` update the access time now.
    pub(crate) fn needs_access_time_update(&self, now: Timestamp) -> bool {
        const DAY_SECONDS: i64 = 24 * 60 * 60;
        self.atime <= self.mtime
            || self.atime <= self.ctime
            || now.seconds.saturating_sub(self.atime.seconds) >= DAY_SECONDS
    }
}

/// Returns the next time that a timestamp can express.
fn just_after(time: Timestamp) -> Timestamp {
    match time.nanoseconds {
        999_999_999.. => Timestamp { seconds: time.seconds.saturating_add(1), nanoseconds: 0 },
        nanoseconds => Timestamp { nanoseconds: nanoseconds + 1, ..time },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_later_than_the_one_before() {
        let mut times = Times::now();
        let ahead = Timestamp { seconds: times.ctime.seconds + 1000, nanoseconds: 999_999_999 };
        times.changed_at(ahead);
        times.modified();
        assert_eq!(times.ctime, Timestamp { seconds: ahead.seconds + 1, nanoseconds: 0 });
        assert!(times.mtime < times.ctime);
        times.changed();
        assert_eq!(times.ctime.nanoseconds, 1);
    }

    #[test]
    fn reading_updates_a_time_that_is_not_later_than_the_last_change_or_a_day_old() {
        let at = |seconds| Timestamp { seconds, nanoseconds: 0 };
        let times = |atime| Times { atime: at(atime), mtime: at(5), ctime: at(7), btime: at(0) };
        assert!(times(7).needs_access_time_update(at(8)));
        assert!(!times(8).needs_access_time_update(at(9)));
        assert!(times(8).needs_access_time_update(at(8 + 86_400)));
    }
}
