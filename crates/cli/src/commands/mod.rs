//! The commands of `plyfs`, one module each.

pub mod control;
pub mod explain;
pub mod fist;
pub mod ioctl;
pub mod log_level;
pub mod mount;
pub mod progress;
pub mod run;
pub mod shell;
pub mod snapshot;
pub mod stats;
pub mod status;
pub mod tools;
pub mod top;
pub mod umount;
pub mod union;

use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

pub use cli::output::{print, report};

use crate::control::Request;
use crate::control::client::{self, Mount};
use crate::exit::{Exit, Failure, Outcome};
use crate::front_end::MountPoint;
use crate::mount_table;
use progress::ProgressLine;

/// The running mount on this path.
fn running(path: &Path) -> Outcome<Mount> {
    let mount_point = mount_table::canonical(path);
    client::find(&mount_point).ok_or_else(|| not_running(&mount_point))
}

/// Sends the union of the running mount on this path a command: its answer.
fn ask_union(mount_point: &Path, command: &str, arguments: &[(&str, &str)]) -> Outcome<String> {
    let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    command_to(&running(mount_point)?, "union", command, arguments)
}

/// Sends a member of a mount's stack a command: its answer. As long as there is none, it is shown how far the command is.
fn command_to(mount: &Mount, target: &str, command: &str, arguments: Vec<(String, String)>) -> Outcome<String> {
    let (target, name) = (target.to_owned(), command.to_owned());
    let line = ProgressLine::new(&command.replace('-', " "));
    let request = Request::Control { target, name, arguments, follows: true };
    mount.text_with_progress(&request, &mut |objects| line.show(objects))
}

/// Names come from others: nothing in them may speak to the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// Whether there is a mount, of anybody, on this mount point.
fn is_mounted(mount_point: &Path) -> bool {
    mount_table::on(mount_point).is_some_and(|entry| entry.is_plyfs())
}

/// The mount of Plyfs on this mount point, if it is the caller's to end or change, and its root.
fn plyfs_on(path: &Path, command: &str) -> Outcome<(MountPoint, mount_table::Entry)> {
    let Ok(point) = MountPoint::open(path) else { return Err(not_running(&mount_table::canonical(path))) };
    let mount_point = point.path();
    // Of the mount that is held, and only if that is its root.
    match mount_table::of(point.mount()).filter(|entry| entry.mount_point == mount_point) {
        Some(entry) if entry.is_plyfs() && !is_of_another_user(&entry) => Ok((point, entry)),
        Some(entry) if !entry.is_plyfs() => {
            let (name, kind) = (mount_point.display(), &entry.kind);
            let remedy = match command {
                "umount" => "unmount it with umount(8)",
                _ => "change its options with mount(8)",
            };
            Err(Failure::new(Exit::NoMount, format!("{name} is a mount of type {kind}, not of Plyfs; {remedy}")))
        }
        _ => Err(not_running(mount_point)),
    }
}

/// Why there is no mount that answers on this mount point.
fn not_running(mount_point: &Path) -> Failure {
    let name = mount_point.display();
    match mount_table::on(mount_point).filter(mount_table::Entry::is_plyfs) {
        Some(entry) if is_of_another_user(&entry) => {
            let user = entry.user.unwrap_or_default();
            Failure::new(
                Exit::Permission,
                format!("the mount on {name} belongs to user {user}; become that user, or root"),
            )
        }
        Some(_) => Failure::new(
            Exit::NoAnswer,
            format!("the server of {name} does not answer; unmount with plyfs umount {name}"),
        ),
        None => Failure::new(Exit::NoMount, format!("there is no mount of Plyfs on {name}; plyfs status lists them")),
    }
}

/// Whether the mount belongs to somebody else, so that only they and root may end or ask it.
fn is_of_another_user(entry: &mount_table::Entry) -> bool {
    !is_root() && entry.user.is_some_and(|user| user != rustix::process::geteuid().as_raw())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A table without lines.
fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// The same with headings; the columns with these numbers hold numbers.
fn headed_table<const COLUMNS: usize>(headings: [&str; COLUMNS], numbers: impl IntoIterator<Item = usize>) -> Table {
    let mut table = plain_table();
    table.set_header(headings);
    for column in numbers {
        table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    table
}
