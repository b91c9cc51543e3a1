//! The statistics in the OpenMetrics text format, for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use stack::printable::printable;

use super::mount_statistics::{Activity, MountStatistics, RequestStatistics};
use crate::front_end::LatencyHistogram;

/// Number of buckets of a histogram, with the upper bounds 1 µs, 2 µs, 4 µs, up to just above 16 s.
const BUCKET_COUNT: u32 = 25;

/// Returns the statistics of all mounts.
pub(crate) fn text(mounts: Vec<MountStatistics>) -> String {
    let mut registry = Registry::with_prefix("plyfs");
    registry.register_collector(Box::new(MountCollector(mounts)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut text, &registry);
    text
}

struct MountCollector(Vec<MountStatistics>);

impl std::fmt::Debug for MountCollector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} mounts", self.0.len())
    }
}

impl Collector for MountCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let operations: fn(&Activity) -> &BTreeMap<String, RequestStatistics> = |activity| &activity.operations;
        let help = "How long requests took in the server, by operation";
        let mut family = encoder.encode_descriptor("request", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        self.each(&mut family, "operation", operations, |metric, requests| encode_times(metric, &requests.times))?;
        let help = "What each part of the stack took of the requests that were watched, without those below it";
        let mut family = encoder.encode_descriptor("part", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        self.each(&mut family, "part", |activity| &activity.parts, encode_times)?;
        let help = "Requests that failed, by operation";
        let mut family = encoder.encode_descriptor("request_failures", help, None, MetricType::Counter)?;
        self.each(&mut family, "operation", operations, |metric, one| ConstCounter::new(one.failures).encode(metric))?;
        let help = "What is mounted";
        let mut family = encoder.encode_descriptor("mount", help, None, MetricType::Info)?;
        for mount in &self.0 {
            let (stack, version) = (escaped(&mount.report.stack), mount.report.version.clone());
            let labels = [("stack", stack), ("version", version)];
            family.encode_family(&[("mount_point", escaped(&mount.report.mount_point))])?.encode_info(&labels)?;
        }
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: fn(&MountStatistics) -> f64| {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            self.0.iter().try_for_each(|mount| {
                let labels = [("mount_point", escaped(&mount.report.mount_point))];
                ConstGauge::new(value(mount)).encode(family.encode_family(&labels)?)
            })
        };
        gauge("objects", "Objects that the kernel holds", None, |mount| mount.report.objects as f64)?;
        gauge("threads", "Threads that serve requests", None, |mount| mount.workers as f64)?;
        gauge("resident_memory", "Memory of the server", Some(&Unit::Bytes), |mount| mount.report.memory_bytes as f64)?;
        gauge("uptime", "Since the mount", Some(&Unit::Seconds), |mount| mount.uptime_seconds)
    }
}

impl MountCollector {
    /// Encodes what each mount has several of, with their names as labels.
    fn each<T>(
        &self,
        family: &mut MetricEncoder<'_>,
        label: &str,
        several: fn(&Activity) -> &BTreeMap<String, T>,
        encode: impl Fn(MetricEncoder<'_>, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for mount in &self.0 {
            let mount_point = escaped(&mount.report.mount_point);
            for (name, one) in several(&mount.activity) {
                let labels = [("mount_point", mount_point.as_str()), (label, name.as_str())];
                encode(family.encode_family(&labels)?, one)?;
            }
        }
        Ok(())
    }
}

fn encode_times(mut metric: MetricEncoder<'_>, times: &LatencyHistogram) -> Result<(), Error> {
    metric.encode_histogram::<[(&str, &str); 0]>(times.total().as_secs_f64(), times.requests(), &buckets(times), None)
}

/// Returns the upper bounds in seconds, each with the number of requests in its own bucket.
fn buckets(times: &LatencyHistogram) -> Vec<(f64, u64)> {
    let mut below = 0;
    let bounds = (0..BUCKET_COUNT).map(|step| Duration::from_micros(1 << step));
    let mut buckets: Vec<(f64, u64)> = bounds
        .map(|bound| {
            let up_to = times.count_up_to(bound).max(below);
            (bound.as_secs_f64(), up_to - std::mem::replace(&mut below, up_to))
        })
        .collect();
    buckets.push((f64::MAX, times.requests() - below));
    buckets
}

/// Returns the value of a label with its special characters escaped, since the encoder writes it unchanged.
fn escaped(text: &str) -> String {
    let escaped = |line: &str| printable(line).replace('\\', "\\\\").replace('"', "\\\"");
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::MountReport;

    fn sample() -> MountStatistics {
        let report = MountReport {
            mount_point: "/mnt \"a\"\n".to_owned(),
            stack: "mem: | audit".to_owned(),
            version: "1.2".to_owned(),
            objects: 7,
            memory_bytes: 4_096,
            ..MountReport::default()
        };
        let times = LatencyHistogram::from_buckets(&[(900, 1), (3_000, 2), (40_000_000_000, 1)]);
        let operations = BTreeMap::from([("lookup".to_owned(), RequestStatistics { failures: 2, times })]);
        let parts = BTreeMap::from([("audit".to_owned(), LatencyHistogram::from_buckets(&[(900, 3)]))]);
        MountStatistics { report, uptime_seconds: 1.5, workers: 3, activity: Activity { operations, parts } }
    }

    #[test]
    fn histograms_are_cumulative_and_labels_are_escaped() {
        let text = text(vec![sample()]);
        let labels = r#"mount_point="/mnt \"a\"\n",operation="lookup""#;
        for line in [
            "# TYPE plyfs_request_seconds histogram".to_owned(),
            format!("plyfs_request_seconds_bucket{{le=\"0.000001\",{labels}}} 1"),
            format!("plyfs_request_seconds_bucket{{le=\"0.000004\",{labels}}} 3"),
            format!("plyfs_request_seconds_bucket{{le=\"+Inf\",{labels}}} 4"),
            format!("plyfs_request_seconds_count{{{labels}}} 4"),
            format!("plyfs_request_failures_total{{{labels}}} 2"),
            r#"plyfs_part_seconds_count{mount_point="/mnt \"a\"\n",part="audit"} 3"#.to_owned(),
            r#"plyfs_objects{mount_point="/mnt \"a\"\n"} 7.0"#.to_owned(),
            r#"plyfs_uptime_seconds{mount_point="/mnt \"a\"\n"} 1.5"#.to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn text_without_mounts_ends_with_eof() {
        assert!(text(Vec::new()).ends_with("# EOF\n"));
    }
}
