//! `plyfs stats`: the number and latencies of the operations of mounts since they were made.

mod counted;
mod exposition;
mod json;
pub(crate) mod table;

use super::print;
use crate::arguments::Stats;
use crate::exit::Outcome;
pub(crate) use counted::{Counted, gather};
use json::Line;

/// Runs the command.
pub(crate) fn run(arguments: &Stats) -> Outcome {
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
