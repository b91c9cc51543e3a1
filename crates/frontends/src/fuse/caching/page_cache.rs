//! Page-cache retention: decides whether the data that the kernel has cached of a file may stay when the file is opened again.
//!
//! Where others may change files below, the kernel would drop a file's data at each open (close-to-open consistency). But if
//! size, mtime and ctime are as they were at an earlier open, nothing has been written since. Timestamps have a granularity of
//! up to some milliseconds, on some file systems of one or two seconds: a file that was changed this recently may change again
//! without a visible difference, and is not recorded.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vnode::{Attributes, Timestamp};

/// Number of recorded files. Two may share a slot, which costs only speed.
const PLACES: usize = 2048;

/// Timestamp granularity of a file system that stores fractions of a second, and of one that does not, with a margin.
const FINE_STEP: Duration = Duration::from_millis(20);
const COARSE_STEP: Duration = Duration::from_secs(3);

/// Attributes that change with a file's data, and the file's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    node: u64,
    size: u64,
    mtime: Timestamp,
    ctime: Timestamp,
}

/// The files by node id, as they were when last opened.
pub(crate) struct KeptData {
    places: Box<[Mutex<Option<Stamp>>]>,
}

impl KeptData {
    pub(crate) fn new() -> KeptData {
        KeptData { places: (0..PLACES).map(|_| Mutex::default()).collect() }
    }

    /// Records a file that is being opened; returns whether it is as it was the last time.
    pub(crate) fn is_unchanged(&self, node: u64, attributes: &Attributes) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Attributes { size, mtime, ctime, .. } = *attributes;
        self.is_unchanged_at(Stamp { node, size, mtime, ctime }, now)
    }

    fn is_unchanged_at(&self, stamp: Stamp, now: Duration) -> bool {
        let place = &self.places[stamp.node as usize % PLACES];
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unchanged = *place == Some(stamp);
        *place = Some(stamp).filter(|_| is_settled(stamp.ctime, now));
        is_unchanged
    }
}

/// Returns whether any change from now on would be visible in the timestamps.
fn is_settled(ctime: Timestamp, now: Duration) -> bool {
    let step = if ctime.nanoseconds == 0 { COARSE_STEP } else { FINE_STEP };
    let Ok(seconds) = u64::try_from(ctime.seconds) else { return true };
    now.checked_sub(step).is_some_and(|before| Duration::new(seconds, ctime.nanoseconds) < before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(node: u64, size: u64, ctime: Duration) -> Stamp {
        let ctime = Timestamp { seconds: ctime.as_secs() as i64, nanoseconds: ctime.subsec_nanos() };
        Stamp { node, size, mtime: ctime, ctime }
    }

    const CHANGED: Duration = Duration::new(1_000, 5);
    const LATER: Duration = Duration::new(1_001, 0);

    #[test]
    fn only_a_file_that_is_as_it_was_is_unchanged() {
        let kept = KeptData::new();
        assert!(!kept.is_unchanged_at(file(7, 1, CHANGED), LATER), "nobody has opened it before");
        assert!(kept.is_unchanged_at(file(7, 1, CHANGED), LATER));
        assert!(!kept.is_unchanged_at(file(7, 2, CHANGED), LATER), "its size is another");
        assert!(!kept.is_unchanged_at(file(7, 2, CHANGED + Duration::from_millis(100)), LATER), "its time is another");
        assert!(!kept.is_unchanged_at(file(7 + PLACES as u64, 2, CHANGED + Duration::from_millis(100)), LATER));
    }

    #[test]
    fn what_changed_just_now_is_not_remembered() {
        let kept = KeptData::new();
        for (changed, step) in [(CHANGED, FINE_STEP), (Duration::from_secs(1_000), COARSE_STEP)] {
            let soon = changed + step;
            assert!(!kept.is_unchanged_at(file(1, 1, changed), soon));
            assert!(!kept.is_unchanged_at(file(1, 1, changed), soon + Duration::from_nanos(1)), "{step:?}");
            assert!(kept.is_unchanged_at(file(1, 1, changed), soon + step));
        }
    }
}
