//! The commands of `plyfs`, one module each.

pub(crate) mod bases;
pub(crate) mod control;
pub(crate) mod explain;
pub(crate) mod fist;
pub(crate) mod ioctl;
pub(crate) mod layers;
pub(crate) mod log_level;
pub(crate) mod member_host;
pub(crate) mod mount;
pub(crate) mod overlay;
pub(crate) mod probe;
pub(crate) mod programs;
pub(crate) mod progress;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod tools;
pub(crate) mod top;
pub(crate) mod umount;

use std::io;
use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use stack::OptionSpecification;
use stack::printable::printable;
use vnode::Control;

use crate::control::Request;
use crate::control::client::{self, Mount};
use crate::exit::{Exit, Failure, Outcome};
use crate::front_end::MountPoint;
use crate::mount_table;
pub(crate) use crate::output::{notify, print, print_json, report, shell_word};
use progress::ProgressLine;

/// Returns the running mount on this path.
fn find_running(path: &Path) -> Outcome<Mount> {
    let mount_point = mount_table::canonical(path);
    client::find(&mount_point).ok_or_else(|| not_running(&mount_point))
}

/// Sends a command to a member of a mount's stack, and returns its answer. Shows the progress of the command until then.
fn send_command(mount: &Mount, command: Control) -> Outcome<String> {
    let Control { target, command: name, arguments } = command;
    let line = ProgressLine::new(&name.replace('-', " "));
    let request = Request::Control { target, name, arguments, follows: true };
    mount.text_with_progress(&request, &mut |objects| line.show(objects))
}

/// Returns whether a mount of any user is on the mount point that a server's report names.
fn is_mounted(mount_point: &str) -> bool {
    let table = mount_table::read();
    table.iter().rfind(|entry| entry.is_reported_as(mount_point)).is_some_and(mount_table::MountEntry::is_plyfs)
}

/// Returns the mount of Plyfs on this mount point, if the caller may end or change it, and its root.
fn own_plyfs_mount(path: &Path, command: &str) -> Outcome<(MountPoint, mount_table::MountEntry)> {
    let point = match MountPoint::open(path) {
        Ok(point) => point,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_root() => {
            return Err(denied_to_root(path, &error));
        }
        Err(_) => return Err(not_running(&mount_table::canonical(path))),
    };
    let mount_point = point.path();
    // The entry of the mount that is held, and only if that is its root.
    match mount_table::find_by_id(point.mount()).filter(|entry| entry.mount_point == mount_point) {
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

/// Returns the failure of root to reach a mount point: FUSE denies access even to root, unless it is allowed to others.
fn denied_to_root(path: &Path, error: &io::Error) -> Failure {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let is_of_user = |above: &mount_table::MountEntry| above.user.is_some_and(|user| user != 0);
    let remedy = match mount_table::above(&path).into_iter().rfind(is_of_user) {
        Some(above) => format!(
            "the mount of user {} on {} may deny it; to unmount that: umount --lazy {}",
            above.user.unwrap_or_default(),
            above.mount_point.display(),
            shell_word(&above.mount_point)
        ),
        None => "see what it is on: findmnt --target PATH".to_owned(),
    };
    Failure::new(Exit::Permission, format!("{} cannot be reached: {error}; {remedy}", path.display()))
}

/// Returns the reason why no mount answers on this mount point.
fn not_running(mount_point: &Path) -> Failure {
    let name = mount_point.display();
    match mount_table::find_at(mount_point).filter(mount_table::MountEntry::is_plyfs) {
        Some(entry) if is_of_another_user(&entry) => {
            let user = entry.user.unwrap_or_default();
            Failure::new(
                Exit::Permission,
                format!("the mount on {name} belongs to user {user}; run as that user, or as root"),
            )
        }
        Some(_) => Failure::new(
            Exit::NoAnswer,
            format!("the server of {name} does not answer; to unmount: plyfs umount {}", shell_word(mount_point)),
        ),
        None => Failure::new(
            Exit::NoMount,
            format!("there is no mount of Plyfs on {name}; to list the mounts: plyfs status"),
        ),
    }
}

/// Returns whether the mount belongs to another user, so that only that user and root may end or query it.
fn is_of_another_user(entry: &mount_table::MountEntry) -> bool {
    !is_root() && entry.user.is_some_and(|user| user != rustix::process::geteuid().as_raw())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns a table without borders.
fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Returns a line for each option of a layer or base, below an empty line; nothing if there are none.
fn option_table(options: &[OptionSpecification]) -> String {
    let mut table = plain_table();
    for option in options {
        table.add_row([format!("{}={}", option.key, option.value), option.summary.to_owned()]);
    }
    if options.is_empty() { String::new() } else { format!("\n{}\n", table.trim_fmt()) }
}

/// As [`plain_table`], but with headings; the columns with these indices contain numbers.
fn table_with_headings<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    numbers: impl IntoIterator<Item = usize>,
) -> Table {
    let mut table = plain_table();
    table.set_header(headings);
    for column in numbers {
        table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    table
}
