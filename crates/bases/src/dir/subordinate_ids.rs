//! Subordinate user ids, as listed by subuid(5): a user with a range of them can act as any number of users.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The ranges of this machine, and the time at which they were read.
static CACHED_RANGES: Mutex<Option<(Instant, Vec<Range<u32>>)>> = Mutex::new(None);

/// Returns the user id that represents all ids of one holder: the first of its range for a subordinate id, else the id itself.
/// The machine's list is read again after some seconds.
pub(crate) fn accounting_uid(uid: u32) -> u32 {
    const REFRESH_INTERVAL: Duration = Duration::from_secs(10);
    let mut cached = CACHED_RANGES.lock().unwrap_or_else(PoisonError::into_inner);
    let is_fresh = cached.as_ref().is_some_and(|(read, _)| read.elapsed() < REFRESH_INTERVAL);
    if !is_fresh {
        // If it cannot be read now, the previous ranges remain valid.
        let previous = cached.take().map_or_else(Vec::new, |(_, ranges)| ranges);
        let ranges = match std::fs::read_to_string("/etc/subuid") {
            Ok(list) => ranges(&list),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(_) => previous,
        };
        *cached = Some((Instant::now(), ranges));
    }
    cached.as_ref().map_or(uid, |(_, ranges)| range_start(ranges, uid))
}

/// Sets the ranges for a test, for some seconds.
#[cfg(test)]
pub(crate) fn set_ranges(ranges: Vec<Range<u32>>) {
    *CACHED_RANGES.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), ranges));
}

fn range_start(ranges: &[Range<u32>], uid: u32) -> u32 {
    ranges.iter().find(|range| range.contains(&uid)).map_or(uid, |range| range.start)
}

/// Parses the ranges of a list: each line has a user, the first id, and a count. Malformed lines are skipped.
fn ranges(list: &str) -> Vec<Range<u32>> {
    let parse = |line: &str| {
        let mut fields = line.trim().split(':').skip(1);
        let (first, count): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        // Such as all users of the machine: they are not one user.
        (first != 0).then(|| first..first.saturating_add(count))
    };
    list.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_range_have_one_holder() {
        let ranges = ranges(
            "ada:100000:65536\n1001:165536:10\n\n# a comment\nbroken:x:y\nroot:0:4294967295\nlast:4294967290:100\n",
        );
        assert_eq!(ranges, [100_000..165_536, 165_536..165_546, 4_294_967_290..u32::MAX]);
        for (uid, accounting_uid) in
            [(1_000, 1_000), (99_999, 99_999), (100_000, 100_000), (165_535, 100_000), (165_540, 165_536)]
        {
            assert_eq!(range_start(&ranges, uid), accounting_uid, "{uid}");
        }
        assert_eq!(range_start(&ranges, 165_546), 165_546);
    }
}
