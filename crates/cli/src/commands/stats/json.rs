//! The counts of a mount, as `--json` prints them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::counted::{Counted, Requests};
use crate::front_end::LatencyHistogram;

/// One mount, as `--json` prints it.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
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
    operations: BTreeMap<&'a str, Operation>,
    parts: BTreeMap<&'a str, Part>,
}

#[derive(Serialize)]
struct Operation {
    requests: u64,
    failures: u64,
    seconds: Seconds,
}

#[derive(Serialize)]
struct Part {
    requests_watched: u64,
    share: f64,
    seconds: Seconds,
}

#[derive(Serialize)]
struct Seconds {
    total: f64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    longest: f64,
}

impl Line<'_> {
    pub(crate) fn of(mount: &Counted) -> Line<'_> {
        let all = mount.work.all();
        Line {
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
            operations: mount.work.operations.iter().map(|(name, one)| (name.as_str(), Operation::of(one))).collect(),
            parts: mount.work.shares().into_iter().map(|(name, times, share)| (name, Part::of(times, share))).collect(),
        }
    }
}

impl Operation {
    fn of(requests: &Requests) -> Operation {
        let Requests { failures, times } = requests;
        Operation { requests: times.requests(), failures: *failures, seconds: Seconds::of(times) }
    }
}

impl Part {
    fn of(times: &LatencyHistogram, share: f64) -> Part {
        Part { requests_watched: times.requests(), share, seconds: Seconds::of(times) }
    }
}

impl Seconds {
    fn of(times: &LatencyHistogram) -> Seconds {
        let quantile = |part| times.quantile(part).as_secs_f64();
        Seconds {
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
