//! `plyfs stats`: the number and latencies of the operations of mounts since they were made.

mod exposition;
mod json;
mod mount_statistics;
pub(crate) mod table;

use super::print;
use crate::arguments::Stats;
use crate::exit::Outcome;
use json::MountJson;
pub(crate) use mount_statistics::{MountStatistics, collect_all};

/// Runs the command.
pub(crate) fn run(arguments: &Stats) -> Outcome {
    let mounts = collect_all(arguments.mount_point.as_deref())?;
    if arguments.prometheus {
        return print(&exposition::text(mounts));
    }
    if arguments.json {
        let lines: Vec<MountJson<'_>> = mounts.iter().map(MountJson::of).collect();
        return print(&format!("{}\n", serde_json::to_string_pretty(&lines).unwrap_or_default()));
    }
    let texts: Vec<String> = mounts.iter().map(table::format_mount).collect();
    print(&if texts.is_empty() { "no mounts\n".to_owned() } else { texts.join("\n") })
}
