//! `plyfs stats`: what the mounts have done since they were made, and how long it took.

pub mod exposition;
pub mod table;

use std::collections::BTreeMap;
use std::iter::Sum;
use std::path::Path;

use serde::Serialize;

use super::{print, report, running};
use crate::arguments::Stats;
use crate::control::client::{self, Mount};
use crate::control::{Report, Statistics};
use crate::exit::Outcome;
use crate::front_end::Times;

/// A mount and what it has done.
pub struct Counted {
    /// What it is.
    pub report: Report,
    /// For how long it has been serving, in seconds.
    pub uptime_seconds: f64,
    /// How many threads serve requests.
    pub workers: usize,
    /// The requests of each operation that occurred.
    pub operations: BTreeMap<String, Requests>,
}

/// Some requests.
#[derive(Clone, Default)]
pub struct Requests {
    /// How many failed.
    pub failures: u64,
    /// How long they took.
    pub times: Times,
}

impl<'a> Sum<&'a Requests> for Requests {
    fn sum<I: Iterator<Item = &'a Requests>>(all: I) -> Requests {
        all.fold(Requests::default(), |mut sum, one| {
            sum.failures += one.failures;
            sum.times.add(&one.times);
            sum
        })
    }
}

/// Runs the command.
pub fn run(arguments: &Stats) -> Outcome {
    let mounts = gather(arguments.mount_point.as_deref())?;
    if arguments.prometheus {
        return print(&exposition::text(mounts));
    }
    if arguments.json {
        let lines: Vec<Line<'_>> = mounts.iter().map(Line::of).collect();
        return print(&format!("{}\n", serde_json::to_string_pretty(&lines).unwrap_or_default()));
    }
    let texts: Vec<String> = mounts.iter().map(table::of_mount).collect();
    print(&if texts.is_empty() { "no mounts\n".to_owned() } else { texts.join("\n") })
}

/// Asks the mount on this path, or all that the caller may ask.
pub fn gather(mount_point: Option<&Path>) -> Outcome<Vec<Counted>> {
    if let Some(path) = mount_point {
        return Ok(vec![Counted::ask(running(path)?)?]);
    }
    let asked = client::mounts().into_iter().map(Counted::ask);
    // One that does not answer is no reason to tell nothing of the others.
    Ok(asked.filter_map(|answer| answer.inspect_err(report).ok()).collect())
}

impl Counted {
    fn ask(mount: Mount) -> Outcome<Counted> {
        let Statistics { uptime_seconds, workers, operations } = mount.statistics()?;
        let operations = operations
            .into_iter()
            .map(|(name, one)| (name, Requests { failures: one.failures, times: Times::from_steps(&one.times) }));
        let operations = operations.collect();
        Ok(Counted { report: mount.report, uptime_seconds, workers, operations })
    }

    /// All operations together.
    pub fn all(&self) -> Requests {
        self.operations.values().sum()
    }

    /// What was done since an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Counted) -> BTreeMap<String, Requests> {
        let since = |(name, now): (&String, &Requests)| {
            let Some(before) = earlier.operations.get(name) else { return Some((name.clone(), now.clone())) };
            let times = now.times.since(&before.times);
            let failures = now.failures.saturating_sub(before.failures);
            (times.requests() > 0).then(|| (name.clone(), Requests { failures, times }))
        };
        self.operations.iter().filter_map(since).collect()
    }
}

/// One mount, as `--json` prints it.
#[derive(Serialize)]
struct Line<'a> {
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
}

#[derive(Serialize)]
struct Operation {
    requests: u64,
    failures: u64,
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
    fn of(mount: &Counted) -> Line<'_> {
        let all = mount.all();
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
            operations: mount.operations.iter().map(|(name, one)| (name.as_str(), Operation::of(one))).collect(),
        }
    }
}

impl Operation {
    fn of(requests: &Requests) -> Operation {
        let times = &requests.times;
        let quantile = |part| times.quantile(part).as_secs_f64();
        let seconds = Seconds {
            total: times.total().as_secs_f64(),
            mean: times.mean().as_secs_f64(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            longest: times.longest().as_secs_f64(),
        };
        Operation { requests: times.requests(), failures: requests.failures, seconds }
    }
}
