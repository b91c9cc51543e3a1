//! The unions that are compared, and how each is mounted, changed and unmounted.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::scene::Branch;

/// A union file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    Plyfs,
    Overlayfs,
    FuseOverlayfs,
    Mergerfs,
    UnionfsFuse,
}

use Subject::{FuseOverlayfs, Mergerfs, Overlayfs, Plyfs, UnionfsFuse};

/// All of them, in the order of the table.
pub(crate) const SUBJECTS: &[Subject] = &[Plyfs, Overlayfs, FuseOverlayfs, Mergerfs, UnionfsFuse];

/// What is asked of a mount beyond the settings that all rows share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// New files go where most space is free.
    MostFree,
    /// Branches with less than 8 MiB of free space get no new files.
    MinimumFree,
    /// Files move when their branch is full.
    MoveWhenFull,
    /// Changes of attributes copy attributes only.
    AttributesOnly,
    /// Copies belong to who makes them.
    CopiesOfCaller,
    /// Handles of files can be opened after a remount.
    Handles,
    /// What is deleted is deleted from all branches.
    DeleteAll,
}

/// A change of the branches of a mounted union.
pub(crate) enum Change<'a> {
    Insert(usize, Branch<'a>),
    Remove(&'a str),
    Mode(Branch<'a>),
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Plyfs => "Plyfs",
            Overlayfs => "overlayfs",
            FuseOverlayfs => "fuse-overlayfs",
            Mergerfs => "mergerfs",
            UnionfsFuse => "unionfs-fuse",
        })
    }
}

impl Subject {
    /// Its version, as the page states it.
    pub(crate) fn version(self) -> String {
        let first = |text: &str| text.split(['.', '-']).take(2).collect::<Vec<_>>().join(".");
        match self {
            Plyfs => env!("CARGO_PKG_VERSION").to_owned(),
            Overlayfs => format!("Linux {}", first(&rustix::system::uname().release().to_string_lossy())),
            FuseOverlayfs | Mergerfs | UnionfsFuse => self.package_version(),
        }
    }

    /// What a program says behind its own name.
    fn package_version(self) -> String {
        let output = Command::new(self.program()).arg("-V").stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("{self} is not installed ({error}): scripts/setup test"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|line| line.starts_with(&self.to_string()));
        line.and_then(|line| line.split(' ').next_back()).unwrap_or("unknown").to_owned()
    }

    fn program(self) -> &'static str {
        match self {
            Plyfs => env!("CARGO_BIN_EXE_plyfs"),
            Overlayfs => "mount",
            FuseOverlayfs => "fuse-overlayfs",
            Mergerfs => "mergerfs",
            UnionfsFuse => "unionfs",
        }
    }

    /// The option for a wish, if there is one; where it is always so, an empty one.
    fn option(self, wish: Wish) -> Option<&'static str> {
        match (self, wish) {
            (Plyfs, Wish::MostFree) => Some("create=most-free"),
            (Plyfs, Wish::MinimumFree) => Some("minimum-free=8m"),
            (Plyfs, Wish::MoveWhenFull) => Some("when-full=move"),
            (Plyfs, Wish::AttributesOnly) => Some("metacopy=on"),
            (Plyfs, Wish::CopiesOfCaller) => Some("copyup=current"),
            (Plyfs, Wish::DeleteAll) => Some("delete=all"),
            (Overlayfs, Wish::AttributesOnly) => Some("metacopy=on"),
            (Overlayfs, Wish::Handles) => Some("nfs_export=on"),
            (Plyfs | FuseOverlayfs | Mergerfs | UnionfsFuse, Wish::Handles) => Some(""),
            (Mergerfs, Wish::MostFree) => Some("category.create=mfs"),
            (Mergerfs, Wish::MinimumFree) => Some("minfreespace=8M"),
            (Mergerfs, Wish::MoveWhenFull) => Some("moveonenospc=true"),
            (Mergerfs, Wish::DeleteAll) => Some(""),
            _ => None,
        }
    }

    /// Mounts branches, or says why that is not possible. The paths are whole.
    pub(crate) fn mount(self, branches: &[Branch<'_>], wish: Option<Wish>, mount_point: &Path) -> Outcome {
        let wish = match wish {
            None => "",
            Some(wish) => self.option(wish).ok_or_else(|| format!("{self} has no option for {wish:?}"))?,
        };
        let mut command = Command::new(self.program());
        match self {
            Plyfs => command.arg("mount").arg(plyfs_stack(branches, wish)),
            Overlayfs => {
                let options = format!("redirect_dir=on,index=on,xino=on,{}", directories(branches));
                command.args(["-t", "overlay", "overlay", "-o"]).arg(with(options, wish))
            }
            FuseOverlayfs => command.arg("-o").arg(with(directories(branches), wish)),
            Mergerfs => {
                let options = "allow_other,use_ino,category.create=ff,minfreespace=0".to_owned();
                command.arg("-o").arg(with(options, wish)).arg(listed(branches))
            }
            UnionfsFuse => {
                let options = "cow,allow_other,use_ino,suid,dev,default_permissions,hide_meta_files".to_owned();
                command.arg("-o").arg(with(options, wish)).arg(listed(branches))
            }
        };
        finish(command.arg(mount_point))
    }

    /// Changes the branches of a mounted union; they are given as they shall be.
    pub(crate) fn change(self, change: &Change<'_>, branches: &[Branch<'_>], mount_point: &Path) -> Outcome {
        match self {
            Plyfs => {
                let mut command = Command::new(self.program());
                match change {
                    Change::Insert(at, branch) => {
                        command.args(["union", "add"]).arg(mount_point).arg(branch.equals("rw", "ro"));
                        command.args(["--at", &at.to_string()])
                    }
                    Change::Remove(path) => command.args(["union", "remove"]).arg(mount_point).arg(path),
                    Change::Mode(branch) => {
                        let mode = if branch.writable { "rw" } else { "ro" };
                        command.args(["union", "mode"]).arg(mount_point).arg(branch.path.as_ref()).arg(mode)
                    }
                };
                finish(&mut command)
            }
            Overlayfs => {
                let options = format!("remount,{}", directories(branches));
                finish(Command::new("mount").arg("-o").arg(options).arg(mount_point))
            }
            Mergerfs => {
                let list = format!("={}", listed(branches));
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(mount_point.join(".mergerfs"), "user.mergerfs.branches", list.as_bytes(), flags)?;
                Ok(())
            }
            FuseOverlayfs | UnionfsFuse => Err(format!("{self} has no command that changes branches").into()),
        }
    }

    /// Unmounts, so that the branches can be mounted again.
    pub(crate) fn unmount(self, mount_point: &Path) -> Outcome {
        match self {
            Plyfs => finish(Command::new(self.program()).arg("umount").arg(mount_point)),
            _ => finish(Command::new("umount").arg(mount_point)),
        }
    }

    /// Runs a command of Plyfs; the others have none for the purpose.
    pub(crate) fn plyfs<S: AsRef<std::ffi::OsStr>>(self, purpose: &str, words: &[S]) -> Outcome {
        self.plyfs_in(Path::new("."), purpose, words)
    }

    /// Likewise, in this directory.
    pub(crate) fn plyfs_in<S: AsRef<std::ffi::OsStr>>(self, directory: &Path, purpose: &str, words: &[S]) -> Outcome {
        match self {
            Plyfs => finish(Command::new(self.program()).args(words).current_dir(directory)),
            _ => Err(format!("{self} has no command for {purpose}").into()),
        }
    }
}

/// Ends as an error, with what it said, if it failed.
fn finish(command: &mut Command) -> Outcome {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{:?}: {}", command.get_program(), String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}

fn with(options: String, more: &str) -> String {
    if more.is_empty() { options } else { format!("{options},{more}") }
}

fn plyfs_stack(branches: &[Branch<'_>], options: &str) -> String {
    let list: Vec<_> = branches.iter().map(|branch| branch.equals("rw", "ro")).collect();
    format!("{} | union{}", list.join(", "), if options.is_empty() { String::new() } else { format!("({options})") })
}

/// As overlayfs has it: one branch that may be written, the leftmost, if it may be.
fn directories(branches: &[Branch<'_>]) -> String {
    let (upper, lower) = match branches {
        [upper, lower @ ..] if upper.writable => (Some(upper), lower),
        lower => (None, lower),
    };
    let lower: Vec<_> = lower.iter().map(|branch| branch.path.as_ref()).collect();
    let lower = format!("lowerdir={}", lower.join(":"));
    match upper {
        Some(upper) => format!("{lower},upperdir={0},workdir={0}.work", upper.path),
        None => lower,
    }
}

fn listed(branches: &[Branch<'_>]) -> String {
    branches.iter().map(|branch| branch.equals("RW", "RO")).collect::<Vec<_>>().join(":")
}
