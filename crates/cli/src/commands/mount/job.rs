//! The parameters that a server needs for its mount.

use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;
use crate::front_end::Plan;
use crate::mount_table;

/// All parameters that a server needs.
pub(super) struct Job {
    pub(super) expression: Expression,
    pub(super) plan: Plan,
    pub(super) log_level: String,
    pub(super) log_file: Option<PathBuf>,
    pub(super) foreground: bool,
    pub(super) explain: bool,
    /// The mount hides existing files.
    pub(super) hides: bool,
}

/// Fails if the path, in the form in which the kernel lists it, is a mount of Plyfs.
pub(super) fn refuse_mounted(mount_point: &Path) -> Outcome {
    if !mount_table::on(mount_point).is_some_and(|entry| entry.is_plyfs()) {
        return Ok(());
    }
    let name = mount_point.display();
    let remedy =
        format!("choose another mount point, or unmount it first, also if its server is dead: plyfs umount {name}");
    Err(Failure::new(Exit::Mounted, format!("{name} is a mount of Plyfs already; {remedy}")))
}
