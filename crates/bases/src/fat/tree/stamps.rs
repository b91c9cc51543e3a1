//! Stamps: times of creation as entries have them, which tell an object from earlier ones with the same number.

use std::sync::{Mutex, PoisonError};

use vnode::Timestamp;

use crate::fat::format::DosDateTime;

/// How far a stamp may be ahead of the clock, in seconds.
const AHEAD_MAX: i64 = 2;
const TICK_NANOSECONDS: u32 = 10_000_000;

/// The source of stamps.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    /// The latest stamp of an object that is gone, as a time.
    retired: Mutex<Timestamp>,
}

impl Stamps {
    /// Returns the time of an object that is created now: later than that of objects that are gone, unless it would be far ahead of the
    /// clock.
    pub(crate) fn next(&self, now: Timestamp) -> Timestamp {
        let retired = *self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let after = tick_after(retired);
        if after > now && after.seconds <= now.seconds.saturating_add(AHEAD_MAX) { after } else { now }
    }

    /// Notes that an object with this stamp is gone.
    pub(crate) fn retire(&self, stamp: DosDateTime, offset_minutes: i32) {
        if let Some(time) = stamp.decode(offset_minutes) {
            let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            *retired = time.max(*retired);
        }
    }
}

fn tick_after(time: Timestamp) -> Timestamp {
    match time.nanoseconds / TICK_NANOSECONDS {
        99.. => Timestamp { seconds: time.seconds.saturating_add(1), nanoseconds: 0 },
        tick => Timestamp { nanoseconds: (tick + 1) * TICK_NANOSECONDS, ..time },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_created_after_a_removal_has_another_stamp() {
        let stamps = Stamps::default();
        let mut now = Timestamp { seconds: 1_800_000_000, nanoseconds: 991_000_000 };
        let stamp = |time| DosDateTime::encode(time, 60);
        for _ in 0..100 {
            let created = stamp(stamps.next(now));
            stamps.retire(created, 60);
            assert_ne!(stamp(stamps.next(now)), created);
        }
        now.seconds -= 1000;
        assert_eq!(stamps.next(now), now, "the clock was set back");
    }
}
