//! Requests and their latencies as tables for people.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::Table;

use super::mount_statistics::{Activity, MountStatistics, RequestStatistics};
use crate::commands::{printable, table_with_headings};
use crate::front_end::LatencyHistogram;

/// Returns the full statistics of a mount.
pub(crate) fn format_mount(mount: &MountStatistics) -> String {
    format_activity(mount, &mount.activity, |count| count.to_string())
}

/// Returns the statistics of a mount over some time. `count` formats a number of requests.
pub(crate) fn format_activity(mount: &MountStatistics, activity: &Activity, count: impl Fn(u64) -> String) -> String {
    let heading = heading(mount, activity.all().times.requests());
    format!("{heading}\n{}\n\n{}\n", operations_table(&activity.operations, count), parts_table(activity))
}

/// Returns the heading of a mount: its identity, and the number of objects it holds.
fn heading(mount: &MountStatistics, requests: u64) -> String {
    let MountStatistics { report, workers, .. } = mount;
    let (objects, kibibytes) = (report.objects, report.memory_bytes / 1_024);
    let (mount_point, stack) = (printable(&report.mount_point), printable(&report.stack));
    format!("{mount_point}: {stack}\n{requests} requests, {objects} objects, {workers} threads, {kibibytes} KiB\n")
}

/// Returns a table of operations, in descending order of total time.
fn operations_table(operations: &BTreeMap<String, RequestStatistics>, count: impl Fn(u64) -> String) -> String {
    let mut table = requests_table("OPERATION");
    let mut rows: Vec<_> = operations.iter().collect();
    rows.sort_by_key(|(_, one)| std::cmp::Reverse(one.times.total()));
    rows.into_iter().for_each(|(name, one)| add_row(&mut table, name, one, &count));
    table.trim_fmt()
}

/// Returns a table of mounts, each with all its operations combined.
pub(crate) fn mounts_table<'a>(
    mounts: impl Iterator<Item = (&'a str, RequestStatistics)>,
    count: impl Fn(u64) -> String,
) -> String {
    let mut table = requests_table("MOUNT POINT");
    mounts.for_each(|(name, all)| add_row(&mut table, &printable(name), &all, &count));
    table.trim_fmt()
}

/// Returns a table of the parts of the stack, in descending order of the time that they took of the sampled requests.
fn parts_table(activity: &Activity) -> String {
    let mut table = table_with_headings(["PART", "WATCHED", "MEAN", "P50", "P90", "P99", "LONGEST", "SHARE"], 1..8);
    for (name, times, share) in activity.shares() {
        let before = [name.to_owned(), times.requests().to_string()];
        table.add_row(before.into_iter().chain(latency_columns(times)).chain([format!("{:.0} %", share * 100.0)]));
    }
    table.trim_fmt()
}

fn requests_table(first: &str) -> Table {
    table_with_headings([first, "REQUESTS", "FAILED", "MEAN", "P50", "P90", "P99", "LONGEST", "TOGETHER"], 1..9)
}

fn add_row(table: &mut Table, name: &str, requests: &RequestStatistics, count: &impl Fn(u64) -> String) {
    let RequestStatistics { failures, times } = requests;
    let before = [name.to_owned(), count(times.requests()), count(*failures)];
    table.add_row(before.into_iter().chain(latency_columns(times)).chain([duration(times.total())]));
}

/// Returns the columns from the mean to the maximum.
fn latency_columns(times: &LatencyHistogram) -> [String; 5] {
    let quantile = |part| times.quantile(part);
    [times.mean(), quantile(0.5), quantile(0.9), quantile(0.99), times.max()].map(duration)
}

/// Returns a duration with three significant digits: `0.52 µs`, `12.3 ms`, `45 s`.
fn duration(time: Duration) -> String {
    let (number, unit) = match time.as_nanos() as f64 {
        nanoseconds if nanoseconds < 999_500.0 => (nanoseconds / 1e3, "µs"),
        nanoseconds if nanoseconds < 999_500_000.0 => (nanoseconds / 1e6, "ms"),
        nanoseconds => (nanoseconds / 1e9, "s"),
    };
    match number {
        0.0 => "-".to_owned(),
        number if number < 9.995 => format!("{number:.2} {unit}"),
        number if number < 99.95 => format!("{number:.1} {unit}"),
        number => format!("{number:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let of = |nanoseconds| duration(Duration::from_nanos(nanoseconds));
        assert_eq!((of(0), of(520), of(12_345)), ("-".into(), "0.52 µs".into(), "12.3 µs".into()));
        assert_eq!((of(999_499), of(999_500), of(9_996_000)), ("999 µs".into(), "1.00 ms".into(), "10.0 ms".into()));
        assert_eq!((of(999_500_000), of(45_000_000_000)), ("1.00 s".into(), "45.0 s".into()));
    }

    #[test]
    fn parts_are_listed_with_their_shares() {
        let times = |steps: &[(u64, u64)]| LatencyHistogram::from_buckets(steps);
        let parts =
            BTreeMap::from([("audit".to_owned(), times(&[(1_000, 10)])), ("dir".to_owned(), times(&[(9_000, 10)]))]);
        let text = parts_table(&Activity { parts, ..Activity::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("dir") && lines[1].ends_with("90 %"), "{text}");
        assert!(lines[2].contains("audit") && lines[2].contains("1.0") && lines[2].ends_with("10 %"), "{text}");
    }

    #[test]
    fn rows_are_ordered_by_total_time() {
        let some =
            |steps: &[(u64, u64)]| RequestStatistics { failures: 1, times: LatencyHistogram::from_buckets(steps) };
        let operations = BTreeMap::from([
            ("lookup".to_owned(), some(&[(10_000, 5)])),
            ("read".to_owned(), some(&[(1_000_000, 2), (2_000_000, 1)])),
        ]);
        let text = operations_table(&operations, |count| format!("{count}/s"));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("read") && lines[1].contains("3/s") && lines[1].contains("4.0"), "{text}");
        assert!(lines[2].contains("lookup") && lines[2].contains("10.0 µs"), "{text}");
    }
}
