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
const SLOTS: usize = 2048;

/// Timestamp granularity of a file system that stores fractions of a second, and of one that does not, with a margin.
const FINE_GRANULARITY: Duration = Duration::from_millis(20);
const COARSE_GRANULARITY: Duration = Duration::from_secs(3);

/// Attributes that change with a file's data, and the file's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DataVersion {
    node: u64,
    size: u64,
    mtime: Timestamp,
    ctime: Timestamp,
}

/// The files by node id, as they were when last opened.
pub(crate) struct PageCacheRetention {
    slots: Box<[Mutex<Option<DataVersion>>]>,
}

impl PageCacheRetention {
    pub(crate) fn new() -> PageCacheRetention {
        PageCacheRetention { slots: (0..SLOTS).map(|_| Mutex::default()).collect() }
    }

    /// Records a file that is being opened; returns whether it is as it was the last time.
    pub(crate) fn record_open(&self, node: u64, attributes: &Attributes) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Attributes { size, mtime, ctime, .. } = *attributes;
        self.record_open_at(DataVersion { node, size, mtime, ctime }, now)
    }

    fn record_open_at(&self, version: DataVersion, now: Duration) -> bool {
        let slot = &self.slots[version.node as usize % SLOTS];
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unchanged = *slot == Some(version);
        *slot = Some(version).filter(|_| is_next_change_visible(version.ctime, now));
        is_unchanged
    }
}

/// Returns whether any change from now on would be visible in the timestamps.
fn is_next_change_visible(ctime: Timestamp, now: Duration) -> bool {
    let granularity = if ctime.nanoseconds == 0 { COARSE_GRANULARITY } else { FINE_GRANULARITY };
    let Ok(seconds) = u64::try_from(ctime.seconds) else { return true };
    now.checked_sub(granularity).is_some_and(|before| Duration::new(seconds, ctime.nanoseconds) < before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(node: u64, size: u64, ctime: Duration) -> DataVersion {
        let ctime = Timestamp { seconds: ctime.as_secs() as i64, nanoseconds: ctime.subsec_nanos() };
        DataVersion { node, size, mtime: ctime, ctime }
    }

    const CHANGED: Duration = Duration::new(1_000, 5);
    const LATER: Duration = Duration::new(1_001, 0);

    #[test]
    fn file_with_same_size_and_times_is_unchanged() {
        let retention = PageCacheRetention::new();
        assert!(!retention.record_open_at(file(7, 1, CHANGED), LATER), "nobody has opened it before");
        assert!(retention.record_open_at(file(7, 1, CHANGED), LATER));
        assert!(!retention.record_open_at(file(7, 2, CHANGED), LATER), "its size is another");
        assert!(
            !retention.record_open_at(file(7, 2, CHANGED + Duration::from_millis(100)), LATER),
            "its time is another"
        );
        assert!(!retention.record_open_at(file(7 + SLOTS as u64, 2, CHANGED + Duration::from_millis(100)), LATER));
    }

    #[test]
    fn recently_changed_file_is_not_recorded() {
        let retention = PageCacheRetention::new();
        for (changed, granularity) in [(CHANGED, FINE_GRANULARITY), (Duration::from_secs(1_000), COARSE_GRANULARITY)] {
            let soon = changed + granularity;
            assert!(!retention.record_open_at(file(1, 1, changed), soon));
            assert!(!retention.record_open_at(file(1, 1, changed), soon + Duration::from_nanos(1)), "{granularity:?}");
            assert!(retention.record_open_at(file(1, 1, changed), soon + granularity));
        }
    }
}
