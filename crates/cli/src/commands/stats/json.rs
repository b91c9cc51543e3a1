//! The counts of a mount, as `--json` prints them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::mount_statistics::{MountStatistics, RequestStatistics};
use crate::front_end::LatencyHistogram;

/// One mount, as `--json` prints it.
#[derive(Serialize)]
pub(crate) struct MountJson<'a> {
    mount_point: &'a str,
    stack: &'a str,
    pid: u32,
    version: &'a str,
    uptime_seconds: f64,
    objects: u64,
    memory_bytes: u64,
    workers: usize,
    requests: u64,
    failures: u64,
    operations: BTreeMap<&'a str, OperationJson>,
    parts: BTreeMap<&'a str, PartJson>,
}

#[derive(Serialize)]
struct OperationJson {
    requests: u64,
    failures: u64,
    seconds: LatencySeconds,
}

#[derive(Serialize)]
struct PartJson {
    requests_watched: u64,
    share: f64,
    seconds: LatencySeconds,
}

#[derive(Serialize)]
struct LatencySeconds {
    total: f64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    longest: f64,
}

impl MountJson<'_> {
    pub(crate) fn of(mount: &MountStatistics) -> MountJson<'_> {
        let all = mount.activity.all();
        MountJson {
            mount_point: &mount.report.mount_point,
            stack: &mount.report.stack,
            pid: mount.report.pid,
            version: &mount.report.version,
            uptime_seconds: mount.uptime_seconds,
            objects: mount.report.objects,
            memory_bytes: mount.report.memory_bytes,
            workers: mount.workers,
            requests: all.times.requests(),
            failures: all.failures,
            operations: mount
                .activity
                .operations
                .iter()
                .map(|(name, one)| (name.as_str(), OperationJson::of(one)))
                .collect(),
            parts: mount
                .activity
                .shares()
                .into_iter()
                .map(|(name, times, share)| (name, PartJson::of(times, share)))
                .collect(),
        }
    }
}

impl OperationJson {
    fn of(requests: &RequestStatistics) -> OperationJson {
        let RequestStatistics { failures, times } = requests;
        OperationJson { requests: times.requests(), failures: *failures, seconds: LatencySeconds::of(times) }
    }
}

impl PartJson {
    fn of(times: &LatencyHistogram, share: f64) -> PartJson {
        PartJson { requests_watched: times.requests(), share, seconds: LatencySeconds::of(times) }
    }
}

impl LatencySeconds {
    fn of(times: &LatencyHistogram) -> LatencySeconds {
        let quantile = |part| times.quantile(part).as_secs_f64();
        LatencySeconds {
            total: times.total().as_secs_f64(),
            mean: times.mean().as_secs_f64(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            longest: times.max().as_secs_f64(),
        }
    }
}
