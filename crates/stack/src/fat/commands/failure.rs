//! Failures of the tools, with the exit code and the remedy of each.

use bases::device::{OpenError, PartitionError};
use bases::fat::tools::ToolError;
use bases::fat::tools::mkfs::MkfsError;
use layers::command::{Exit, Failure};
use vnode::Errno;

/// Returns the failure for an image or device that cannot be opened.
pub(crate) fn of_opening(error: &OpenError) -> Failure {
    let exit = match error {
        OpenError::NoPermission(_) => Exit::Permission,
        error if error.is_in_use() => Exit::Busy,
        _ => Exit::Stack,
    };
    Failure::new(exit, error)
}

/// Returns the failure for a device of which no part can be chosen.
pub(crate) fn of_choice(name: &str, error: &PartitionError) -> Failure {
    let message = match error {
        PartitionError::NoneFits(None) => format!(
            "neither `{name}` nor a partition of it has a FAT file system: check the path, repair it with plyfs fat fsck, or make one \
             with plyfs fat mkfs"
        ),
        error => format!("cannot use `{name}`: {error}"),
    };
    Failure::new(Exit::Stack, message)
}

/// Returns the failure of a tool. `task` is what it was doing, as an infinitive: `check`.
pub(crate) fn of_tool(task: &str, name: &str, error: &ToolError) -> Failure {
    let exit = match error {
        ToolError::NotFat(_) | ToolError::ReadOnly => Exit::Stack,
        _ => Exit::Failure,
    };
    let remedy = remedy(error).map(|remedy| format!("; {remedy}")).unwrap_or_default();
    Failure::new(exit, format!("cannot {task} `{name}`: {error}{remedy}"))
}

/// Returns the failure of making a file system.
pub(crate) fn of_mkfs(name: &str, error: &MkfsError) -> Failure {
    match error {
        MkfsError::Device(error) => of_tool("make a file system on", name, error),
        // The message names the option and its values.
        error => Failure::new(Exit::Failure, format!("cannot make a file system on `{name}`: {error}")),
    }
}

fn remedy(error: &ToolError) -> Option<&'static str> {
    Some(match error {
        ToolError::NotFat(_) => "check the path, repair it with plyfs fat fsck, or make one with plyfs fat mkfs",
        ToolError::Read { .. } => {
            "copy what can be read to another disk, such as with ddrescue(1), and repair the copy"
        }
        ToolError::Write { errno, .. } if *errno == Errno::ENOSPC => {
            "make room on the file system that the image is on, and run the command again"
        }
        ToolError::Write { .. } => "check the disk and, of an image, the free space of the file system that it is on",
        ToolError::Flush(_) => "check the disk, and run the command again",
        ToolError::ReadOnly => "remove the write protection, or use a copy",
        ToolError::NoSpace => "remove files from it first",
        ToolError::RootFull => "remove a file from the root directory, or move it elsewhere",
        ToolError::DirectoryFull => "move files from the directory elsewhere",
        ToolError::NotFound(_) => "list a directory with plyfs fat dump --directory / IMAGE",
        ToolError::NotADirectory(_) => "show the clusters of a file with --chain",
        ToolError::NoCluster(_) | ToolError::NoSector(_) => "show their number with plyfs fat dump IMAGE",
        ToolError::NoSerial => "make the file system again, with plyfs fat mkfs",
        // The error names the command.
        ToolError::Inconsistent => return None,
    })
}
