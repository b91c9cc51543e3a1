//! The parameters that a server needs for its mount.

use std::path::Path;

use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;
use crate::front_end::MountPlan;
use crate::mount_table;
use crate::output::shell_word;

/// All parameters that a server needs.
pub(crate) struct MountJob {
    pub(crate) expression: Expression,
    pub(crate) plan: MountPlan,
    pub(crate) log_level: String,
    pub(crate) foreground: bool,
    pub(crate) explain: bool,
    /// The mount hides existing files.
    pub(crate) hides: bool,
    /// What is probably not meant, for the user.
    pub(crate) warnings: Vec<String>,
}

/// Fails if the path, in the form in which the kernel lists it, is a mount of Plyfs.
pub(crate) fn check_not_mounted(mount_point: &Path) -> Outcome {
    if !mount_table::find_at(mount_point).is_some_and(|entry| entry.is_plyfs()) {
        return Ok(());
    }
    let name = mount_point.display();
    let remedy = format!("choose another mount point, or unmount it first: plyfs umount {}", shell_word(mount_point));
    Err(Failure::new(Exit::Mounted, format!("{name} is already a mount of Plyfs; {remedy}")))
}
