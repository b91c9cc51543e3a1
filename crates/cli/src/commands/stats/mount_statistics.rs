//! The statistics of mounts.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::path::Path;
use std::time::Duration;

use crate::commands::{find_running, is_mounted, is_of_another_user, not_running};
use crate::control::client::{self, Mount};
use crate::control::{MountReport, StatisticsReport};
use crate::exit::{Failure, Outcome};
use crate::front_end::LatencyHistogram;
use crate::mount_table::{self, MountEntry};

/// A mount and its statistics.
pub(crate) struct MountStatistics {
    /// Identity and state of the mount.
    pub report: MountReport,
    /// Time since serving began, in seconds.
    pub uptime_seconds: f64,
    /// Number of threads that serve requests.
    pub workers: usize,
    /// The statistics of its operations.
    pub activity: Activity,
}

/// The statistics of a mount over some time.
#[derive(Clone, Default)]
pub(crate) struct Activity {
    /// The requests of each operation that occurred.
    pub operations: BTreeMap<String, RequestStatistics>,
    /// The time that each part of the stack itself took of the sampled requests that reached it.
    pub parts: BTreeMap<String, LatencyHistogram>,
}

/// The statistics of some requests.
#[derive(Clone, Default)]
pub(crate) struct RequestStatistics {
    /// Number of requests that failed.
    pub failures: u64,
    /// The latencies of the requests.
    pub times: LatencyHistogram,
}

impl<'a> Sum<&'a RequestStatistics> for RequestStatistics {
    fn sum<I: Iterator<Item = &'a RequestStatistics>>(all: I) -> RequestStatistics {
        all.fold(RequestStatistics::default(), |mut sum, one| {
            sum.failures += one.failures;
            sum.times.add(&one.times);
            sum
        })
    }
}

/// The statistics of several mounts.
pub(crate) struct CollectedStatistics {
    /// Of the mounts whose servers answer.
    pub mounts: Vec<MountStatistics>,
    /// Why there are none of the others.
    pub failures: Vec<Failure>,
}

/// Queries the mount on this path, or all mounts that the caller may query.
pub(crate) fn collect_all(mount_point: Option<&Path>) -> Outcome<CollectedStatistics> {
    if let Some(path) = mount_point {
        let mounts = vec![MountStatistics::query(find_running(path)?)?];
        return Ok(CollectedStatistics { mounts, failures: Vec::new() });
    }
    let mut silent = mount_table::read();
    silent.retain(MountEntry::is_plyfs);
    let mut collected = CollectedStatistics { mounts: Vec::new(), failures: Vec::new() };
    for mount in client::mounts() {
        let name = mount.report.mount_point.clone();
        // It may be mounted elsewhere, too.
        let reported = silent.iter().filter(|entry| entry.is_reported_as(&name));
        let devices: Vec<u64> = reported.map(|entry| entry.device).collect();
        silent.retain(|entry| !devices.contains(&entry.device));
        match MountStatistics::query(mount) {
            Ok(counted) => collected.mounts.push(counted),
            Err(failure) if is_mounted(&name) => collected.failures.push(failure),
            // It has ended in the meantime.
            Err(_) => {}
        }
    }
    silent.retain(|entry| !is_of_another_user(entry) && is_mounted(&entry.mount_point.to_string_lossy()));
    collected.failures.extend(silent.iter().map(|entry| not_running(&entry.mount_point)));
    Ok(collected)
}

impl MountStatistics {
    fn query(mount: Mount) -> Outcome<MountStatistics> {
        let StatisticsReport { uptime_seconds, workers, operations, parts } = mount.statistics()?;
        let operations = operations.into_iter().map(|(name, one)| {
            (name, RequestStatistics { failures: one.failures, times: LatencyHistogram::from_buckets(&one.times) })
        });
        let parts = parts.into_iter().map(|(name, steps)| (name, LatencyHistogram::from_buckets(&steps)));
        let activity = Activity { operations: operations.collect(), parts: parts.collect() };
        Ok(MountStatistics { report: mount.report, uptime_seconds, workers, activity })
    }
}

impl Activity {
    /// Returns all operations combined.
    pub(crate) fn all(&self) -> RequestStatistics {
        self.operations.values().sum()
    }

    /// Returns the difference to an earlier state.
    #[must_use]
    pub(crate) fn since(&self, earlier: &Activity) -> Activity {
        let operations = self.operations.iter().map(|(name, now)| {
            let Some(before) = earlier.operations.get(name) else { return (name.clone(), now.clone()) };
            let failures = now.failures.saturating_sub(before.failures);
            (name.clone(), RequestStatistics { failures, times: now.times.since(&before.times) })
        });
        let parts = self.parts.iter().map(|(name, now)| {
            (name.clone(), earlier.parts.get(name).map_or_else(|| now.clone(), |before| now.since(before)))
        });
        Activity {
            operations: operations.filter(|(_, one)| one.times.requests() > 0).collect(),
            parts: parts.filter(|(_, times)| times.requests() > 0).collect(),
        }
    }

    /// Returns the parts in descending order of total time, each with its fraction of the total, from 0 to 1.
    pub(crate) fn shares(&self) -> Vec<(&str, &LatencyHistogram, f64)> {
        let all: Duration = self.parts.values().map(LatencyHistogram::total).sum();
        let share = |times: &LatencyHistogram| times.total().as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
        let mut parts: Vec<_> = self.parts.iter().map(|(name, times)| (name.as_str(), times, share(times))).collect();
        parts.sort_by(|one, other| other.2.total_cmp(&one.2));
        parts
    }
}
