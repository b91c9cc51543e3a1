//! `plyfs snapshot`: snapshots of a mounted union.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::Deserialize;

use super::client::{parse_answer, query};
use super::confirmation::confirm;
use crate::command::{CommandHost, MemberCommand, Outcome};
use crate::printable::{escaped, printable};
use crate::union::snapshots::diff::difference_line;

pub(crate) const COMMAND: MemberCommand = MemberCommand { name: "snapshot", command: SnapshotArguments::command, run };

/// Format of times.
const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S";

/// Format of the names of snapshots that get none from the user: their times.
const NAME_FORMAT: &str = "%Y-%m-%dT%H:%M:%S";

/// Take, list, compare and restore snapshots of a mounted union
///
/// A snapshot preserves the state of the whole union. Taking one is instantaneous, whatever the size of the union, and uses space only for later changes. While there are snapshots, only the branch that was written first can be changed.
#[derive(Debug, Parser)]
struct SnapshotArguments {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Debug, Subcommand)]
enum SnapshotCommand {
    /// Take a snapshot of the current state, while programs use the union
    Take {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Name of the snapshot, without spaces; by default, the current time
        name: Option<String>,
    },
    /// List the snapshots, oldest first
    List {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List what was added (+), changed (~) and deleted (-) since a snapshot
    Diff {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Snapshot to compare with
        from: String,
        /// Later snapshot; by default, the current state
        to: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Drop all snapshots before one, or all; the current state is unchanged. On a terminal, asks for confirmation
    Merge {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Snapshot that becomes the oldest; by default, all are dropped
        name: Option<String>,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Drop a snapshot; the current state and the other snapshots are unchanged. On a terminal, asks for confirmation
    Drop {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Name of the snapshot
        name: String,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Restore a snapshot: all later changes and snapshots are lost. On a terminal, asks for confirmation
    Restore {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Name of the snapshot
        name: String,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

/// A snapshot in the list.
#[derive(Deserialize)]
struct SnapshotEntry {
    name: String,
    taken: i64,
}

/// A difference between two states.
#[derive(Deserialize)]
struct DifferenceEntry {
    change: String,
    path: String,
    kind: String,
}

fn run(matches: &ArgMatches, host: &dyn CommandHost) -> Outcome {
    match SnapshotArguments::from_arg_matches(matches)?.command {
        SnapshotCommand::Take { mount_point, name } => {
            let name = name.unwrap_or_else(|| Zoned::now().strftime(NAME_FORMAT).to_string());
            query(host, &mount_point, "snapshot-take", &[("name", &name)])?;
            host.print(&format!("{name}\n"))
        }
        SnapshotCommand::List { mount_point, json } => {
            let answer = query(host, &mount_point, "snapshots", &[])?;
            host.print(&if json { format!("{answer}\n") } else { format_list(&parse_answer::<Vec<_>>(&answer)?) })
        }
        SnapshotCommand::Diff { mount_point, from, to, json } => {
            let to = to.as_ref().map(|to| ("to", to.as_str()));
            let arguments: Vec<_> = [("from", from.as_str())].into_iter().chain(to).collect();
            let answer = query(host, &mount_point, "snapshot-diff", &arguments)?;
            host.print(&if json {
                format!("{answer}\n")
            } else {
                format_differences(&parse_answer::<Vec<_>>(&answer)?)
            })
        }
        SnapshotCommand::Merge { mount_point, name, yes } => {
            let which = name.as_ref().map_or("all snapshots".to_owned(), |name| format!("all snapshots before {name}"));
            confirm(host, &question(&format!("drop {which}"), &mount_point, ""), yes)?;
            let arguments: Vec<_> = name.iter().map(|name| ("name", name.as_str())).collect();
            query(host, &mount_point, "snapshot-merge", &arguments).map(drop)
        }
        SnapshotCommand::Drop { mount_point, name, yes } => {
            confirm(host, &question(&format!("drop the snapshot {name}"), &mount_point, ""), yes)?;
            query(host, &mount_point, "snapshot-drop", &[("name", &name)]).map(drop)
        }
        SnapshotCommand::Restore { mount_point, name, yes } => {
            let loss = ", and lose all later changes and snapshots";
            confirm(host, &question(&format!("restore the snapshot {name}"), &mount_point, loss), yes)?;
            query(host, &mount_point, "snapshot-restore", &[("name", &name)]).map(drop)
        }
    }
}

/// Returns the question whether to do something to the union on a mount point, and what is lost with it.
fn question(action: &str, mount_point: &Path, loss: &str) -> String {
    escaped(&format!("{action} of {}{loss}?", mount_point.display()))
}

/// Returns a line for each snapshot: its time and its name.
fn format_list(snapshots: &[SnapshotEntry]) -> String {
    let line = |SnapshotEntry { name, taken }: &SnapshotEntry| {
        let time = Timestamp::from_second(*taken).map(|time| time.to_zoned(TimeZone::system()));
        let time = time.map(|time| time.strftime(TIME_FORMAT).to_string()).unwrap_or_default();
        format!(" {time}  {}\n", printable(name))
    };
    snapshots.iter().map(line).collect()
}

fn format_differences(differences: &[DifferenceEntry]) -> String {
    let line =
        |DifferenceEntry { change, path, kind }: &DifferenceEntry| difference_line(change, path, kind == "directory");
    differences.iter().map(line).collect()
}
