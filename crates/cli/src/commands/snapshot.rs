//! `plyfs snapshot`: snapshots of a mounted union.

use serde::Deserialize;

use super::{plain_table, print, printable, query_union};
use crate::arguments::Snapshot;
use crate::exit::{Exit, Failure, Outcome};

/// A snapshot in the list.
#[derive(Deserialize)]
struct SnapshotEntry {
    name: String,
    taken: i64,
}

/// A difference between two states.
#[derive(Deserialize)]
pub(crate) struct DifferenceEntry {
    change: String,
    path: String,
    kind: String,
}

/// Runs the command.
pub(crate) fn run(command: &Snapshot) -> Outcome {
    match command {
        Snapshot::Take { mount_point, name } => {
            let name = name.clone().unwrap_or_else(|| jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string());
            query_union(mount_point, "snapshot-take", &[("name", &name)])?;
            print(&format!("{name}\n"))
        }
        Snapshot::List { mount_point, json } => {
            let response = query_union(mount_point, "snapshots", &[])?;
            if *json { print(&format!("{response}\n")) } else { print(&format_list(&parse_list(&response)?)) }
        }
        Snapshot::Diff { mount_point, from, to, json } => {
            let to = to.as_ref().map(|to| ("to", to.as_str()));
            let arguments: Vec<_> = [("from", from.as_str())].into_iter().chain(to).collect();
            let response = query_union(mount_point, "snapshot-diff", &arguments)?;
            if *json { print(&format!("{response}\n")) } else { print(&format_differences(&parse_list(&response)?)) }
        }
        Snapshot::Merge { mount_point, name } => {
            let arguments: Vec<_> = name.iter().map(|name| ("name", name.as_str())).collect();
            query_union(mount_point, "snapshot-merge", &arguments).map(drop)
        }
        Snapshot::Drop { mount_point, name } => query_union(mount_point, "snapshot-drop", &[("name", name)]).map(drop),
        Snapshot::Restore { mount_point, name } => {
            query_union(mount_point, "snapshot-restore", &[("name", name)]).map(drop)
        }
    }
}

/// Parses a list that a union has returned.
pub(crate) fn parse_list<'a, T: Deserialize<'a>>(response: &'a str) -> Outcome<Vec<T>> {
    serde_json::from_str(response).map_err(|error| {
        Failure::new(Exit::NoAnswer, format!("the server's answer cannot be read: {error}; is it of another version?"))
    })
}

fn format_list(snapshots: &[SnapshotEntry]) -> String {
    let mut table = plain_table();
    for SnapshotEntry { name, taken } in snapshots {
        let time = jiff::Timestamp::from_second(*taken).map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
        let time = time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default();
        table.add_row([time, printable(name)]);
    }
    if snapshots.is_empty() { String::new() } else { format!("{}\n", table.trim_fmt()) }
}

/// Returns the differences, one per line: `+` for added, `~` for changed, `-` for deleted; a directory ends with a slash, and
/// the root is `.`.
pub(crate) fn format_differences(differences: &[DifferenceEntry]) -> String {
    let line = |DifferenceEntry { change, path, kind }: &DifferenceEntry| {
        let sign = match change.as_str() {
            "added" => '+',
            "deleted" => '-',
            _ => '~',
        };
        let slash = if kind == "directory" && !path.is_empty() { "/" } else { "" };
        let path = if path.is_empty() { "." } else { path };
        format!("{sign} {}{slash}\n", printable(path))
    };
    differences.iter().map(line).collect()
}
