//! `plyfs stats`: the number and latencies of the operations of mounts since they were made.

mod exposition;
mod json;
mod mount_statistics;
pub(crate) mod table;

use super::{print, print_json, report};
use crate::arguments::Stats;
use crate::exit::{Exit, Failure, Outcome};
use json::MountJson;
pub(crate) use mount_statistics::{CollectedStatistics, MountStatistics, collect_all};

/// Runs the command. Mounts whose servers do not answer are no reason to omit the others.
pub(crate) fn run(arguments: &Stats) -> Outcome {
    let CollectedStatistics { mounts, failures } = collect_all(arguments.mount_point.as_deref())?;
    failures.iter().for_each(report);
    let (has_none, is_silent) = (mounts.is_empty(), !failures.is_empty());
    if arguments.prometheus {
        print(&exposition::text(mounts))?;
    } else if arguments.json {
        let lines: Vec<MountJson<'_>> = mounts.iter().map(MountJson::of).collect();
        print_json(&lines)?;
    } else if !has_none {
        print(&mounts.iter().map(table::format_mount).collect::<Vec<_>>().join("\n"))?;
    } else if !is_silent {
        print("no mounts\n")?;
    }
    if has_none && is_silent { Err(Failure::silent(Exit::NoAnswer)) } else { Ok(()) }
}
