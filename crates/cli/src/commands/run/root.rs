//! The fork of the whole tree: mounted out of the way, with what belongs to the machine in it, as the root of the command.
//!
//! The scratch directory lies in that tree, so an empty file system covers it: the command sees nothing of its own changes
//! as such, and the fork is mounted there, where nothing is forked.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind_recursive, unmount};

use crate::exit::{Exit, Failure, Outcome};

/// What is not forked: devices, processes, and what talks to them.
const SHARED: [&str; 4] = ["dev", "proc", "run", "sys"];

/// A place for the fork of `/`. Dropped, nothing of it stays.
pub struct Root {
    cover: PathBuf,
    /// Where the fork is mounted.
    pub mount_point: PathBuf,
}

impl Root {
    /// Covers the scratch directory and makes the mount point.
    pub fn prepare(scratch: &Path) -> Outcome<Self> {
        let none: Option<&CStr> = None;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("plyfs", scratch, "tmpfs", flags, none).map_err(|error| failed("cover the scratch directory", &error))?;
        let root = Self { cover: scratch.to_owned(), mount_point: scratch.join("root") };
        fs::create_dir(&root.mount_point).map_err(|error| failed("make a mount point", &error))?;
        Ok(root)
    }

    /// Brings what is not forked into the fork, once that is mounted.
    pub fn furnish(&self) -> Outcome {
        for name in SHARED {
            let (there, here) = (Path::new("/").join(name), self.mount_point.join(name));
            if there.is_dir() && here.is_dir() {
                mount_bind_recursive(&there, &here).map_err(|error| failed("bring devices into the fork", &error))?;
            }
        }
        Ok(())
    }

    /// Takes that out again, before the fork goes.
    pub fn clear(&self) {
        for name in SHARED {
            // What was not there need not go.
            let _ = unmount(self.mount_point.join(name), UnmountFlags::DETACH);
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = unmount(&self.cover, UnmountFlags::DETACH);
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Mount, format!("cannot {what}: {error}; fork the directories that matter instead of /"))
}

/// Goes into the new root, to a directory in it: for a new process, before it becomes the command.
pub fn enter(root: &CStr, directory: &CStr) -> io::Result<()> {
    rustix::process::chroot(root)?;
    Ok(rustix::process::chdir(directory)?)
}
