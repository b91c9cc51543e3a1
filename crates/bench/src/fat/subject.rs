//! The subjects: the raw device, file systems of the kernel, servers in user space, and mtools, each with how it is mounted.
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use rustix::mount::UnmountFlags;
use serde::{Deserialize, Serialize};

use super::loop_image::{Format, LoopImage};
use crate::programs::{self, Server};
use crate::system_tools::{is_program, kernel_version, reported_version, run_quietly};

/// Values that `--subjects` accepts.
pub(crate) const FAMILIES: [&str; 6] = [RAW, EXT4, "vfat", PLYFS, "fusefat", "mtools"];

/// The device without a file system: the reference of transfers.
pub(crate) const RAW: &str = "raw";
/// The reference of what needs names.
pub(crate) const EXT4: &str = "ext4";
const PLYFS: &str = "plyfs";

/// Block sizes that are measured where the base has the option `block`.
const BLOCK_SIZES: [&str; 5] = ["4k", "16k", "64k", "256k", "1m"];

/// The option for Unix metadata, which the writeback cache of the kernel requires.
const SIDECAR: &str = "meta=sidecar";

/// The way to the data.
#[derive(Clone)]
pub(crate) enum Access {
    /// The device itself.
    Device,
    /// A file system of the kernel, of this type.
    Kernel(&'static str),
    /// A server in the foreground with these arguments; `{device}` and `{mount}` are replaced.
    Server(PathBuf, Vec<String>),
    /// A program for each operation.
    Tools,
}

/// A measured subject.
#[derive(Clone)]
pub(crate) struct FatSubject {
    /// Name shown in the results.
    pub name: String,
    /// One of [`FAMILIES`].
    pub family: &'static str,
    /// The way to the data.
    pub access: Access,
    /// What the device is formatted with.
    pub format: Format,
}

/// The description of a subject in the results.
#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct FatSubjectDescription {
    /// Name of the subject, as in the figures.
    pub name: String,
    /// Version that the program reports.
    pub version: Option<String>,
    /// The command that mounts it, or what is used instead.
    pub command: String,
}

/// A mounted subject; unmounted by force on drop.
pub(crate) struct MountedVolume {
    directory: PathBuf,
    /// `None` for a file system of the kernel.
    server: Option<Server>,
    mounted: bool,
}

impl FatSubject {
    /// Returns the reason why it cannot be measured, if there is one. The module of a file system is loaded if possible.
    pub(crate) fn unavailable_reason(&self) -> Option<String> {
        match &self.access {
            Access::Device => None,
            Access::Kernel(kind) => {
                if !procfs::has_file_system(kind) {
                    let _ = run_quietly(Command::new("modprobe").arg(kind));
                }
                (!procfs::has_file_system(kind)).then(|| format!("the kernel has no {kind}"))
            }
            Access::Server(program, _) if self.family == PLYFS => (!is_program(program))
                .then(|| format!("no {}: build it, or say where it is by --plyfs", program.display())),
            Access::Server(program, _) => missing(program),
            Access::Tools => missing(Path::new("mcopy")),
        }
    }

    /// Mounts the formatted volume with empty caches.
    pub(crate) fn mount(&self, image: &LoopImage) -> Result<MountedVolume> {
        let directory = image.mount_point()?;
        let mut mounted = MountedVolume { directory: directory.clone(), server: None, mounted: true };
        match &self.access {
            Access::Kernel(kind) => {
                run_quietly(Command::new("mount").args(["-t", kind]).arg(image.device()).arg(&directory))?;
            }
            Access::Server(program, arguments) => {
                let mut command = Command::new(program);
                command.args(arguments.iter().map(|argument| {
                    let device = argument.replace("{device}", &image.device().to_string_lossy());
                    device.replace("{mount}", &directory.to_string_lossy())
                }));
                mounted.server = Some(Server::start(&mut command, &directory, &image.root().join("log"))?);
            }
            Access::Device | Access::Tools => anyhow::bail!("{} is not mounted", self.name),
        }
        Ok(mounted)
    }

    /// Returns the description for the results, without paths of this machine.
    pub(crate) fn description(&self) -> FatSubjectDescription {
        let (version, command) = match &self.access {
            Access::Device => (kernel_version(), "read(2) and write(2) on the loop device".to_owned()),
            Access::Kernel(kind) => (kernel_version(), format!("mount -t {kind} DEVICE MOUNT")),
            Access::Server(program, arguments) => {
                let words = arguments.iter().map(|word| word.replace("{device}", "DEVICE").replace("{mount}", "MOUNT"));
                let command = std::iter::once(self.family.to_owned()).chain(words).collect::<Vec<_>>().join(" ");
                let version = match self.family {
                    PLYFS => reported_version(program, &["--version"], PLYFS),
                    package => package_version(package),
                };
                (version.unwrap_or_else(|| "-".to_owned()), command)
            }
            Access::Tools => {
                let version = reported_version(Path::new("mcopy"), &["--version"], "mcopy");
                (version.unwrap_or_else(|| "-".to_owned()), "mcopy -i DEVICE, mdel -i DEVICE".to_owned())
            }
        };
        FatSubjectDescription { name: self.name.clone(), version: Some(version), command }
    }
}

/// Returns the version of a package whose program does not report one.
fn package_version(package: &str) -> Option<String> {
    let output = run_quietly(Command::new("dpkg-query").args(["-W", "-f", "${Package} ${Version}", package])).ok()?;
    Some(output.trim().to_owned())
}

fn missing(program: &Path) -> Option<String> {
    (!is_program(program)).then(|| format!("{} is not installed: run scripts/bench-setup", program.display()))
}

impl MountedVolume {
    /// Returns the directory in which the subject is mounted.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmounts, and waits for the server to end.
    pub(crate) fn unmount(mut self) -> Result<()> {
        self.mounted = false;
        match self.server.take() {
            Some(server) => server.unmount(),
            None => programs::unmount(&self.directory),
        }
    }
}

impl Drop for MountedVolume {
    fn drop(&mut self) {
        self.server = None;
        if self.mounted {
            let _ = rustix::mount::unmount(&self.directory, UnmountFlags::DETACH);
        }
    }
}

/// Returns all subjects in the order of the results, with more for each block size if the base has them.
pub(crate) fn all(plyfs: &Path) -> Vec<FatSubject> {
    let fat = Format::Fat { cluster: None };
    let subject = |family: &'static str, access, format| FatSubject { name: family.to_owned(), family, access, format };
    let mut all = vec![
        subject(RAW, Access::Device, Format::Unformatted),
        subject(EXT4, Access::Kernel(EXT4), Format::Ext4 { block: None, inodes: None }),
        subject("vfat", Access::Kernel("vfat"), fat),
        plyfs_subject(plyfs, "", None),
        plyfs_subject(plyfs, SIDECAR, None),
        mounted_with(plyfs_subject(plyfs, SIDECAR, None), "writes=back"),
    ];
    if has_option(plyfs, "block") {
        all.extend(BLOCK_SIZES.iter().map(|size| plyfs_subject(plyfs, &format!("block={size}"), None)));
    }
    let fusefat = ["-f", "-o", "rw+", "{device}", "{mount}"].map(str::to_owned).to_vec();
    all.push(subject("fusefat", Access::Server(PathBuf::from("fusefat"), fusefat), fat));
    all.push(subject("mtools", Access::Tools, fat));
    all
}

/// Returns Plyfs with these options of the base, on a volume with clusters of this size.
pub(crate) fn plyfs_subject(program: &Path, options: &str, cluster: Option<u64>) -> FatSubject {
    let given = if options.is_empty() { String::new() } else { format!("({options})") };
    let name = if options.is_empty() { "plyfs fat".to_owned() } else { format!("plyfs fat {options}") };
    let arguments = ["mount".to_owned(), "-f".to_owned(), format!("fat:{{device}}{given}"), "{mount}".to_owned()];
    let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    FatSubject {
        name,
        family: PLYFS,
        access: Access::Server(program, arguments.to_vec()),
        format: Format::Fat { cluster },
    }
}

/// Returns a server with one more mount option.
fn mounted_with(mut subject: FatSubject, option: &str) -> FatSubject {
    if let Access::Server(_, arguments) = &mut subject.access {
        let position = arguments.len() - 2;
        arguments.splice(position..position, ["-o", option].map(str::to_owned));
    }
    subject.name = format!("{} {option}", subject.name);
    subject
}

/// Returns whether the base `fat` of the program has that option.
fn has_option(plyfs: &Path, option: &str) -> bool {
    run_quietly(Command::new(plyfs).args(["bases", "fat"])).is_ok_and(|text| lists_option(&text, option))
}

fn lists_option(text: &str, option: &str) -> bool {
    text.lines().any(|line| line.trim_start().strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_the_list_of_the_base() {
        let text = "fat: a volume\n\n ro=yes|no   write nothing\n blocks=N   other\n";
        assert!(lists_option(text, "ro"));
        assert!(!lists_option(text, "block"));
    }

    #[test]
    fn options_are_part_of_name_and_command() {
        let plain = plyfs_subject(Path::new("plyfs"), "", None);
        assert_eq!(plain.name, "plyfs fat");
        let subject = plyfs_subject(Path::new("plyfs"), "block=4k", None);
        assert_eq!(subject.name, "plyfs fat block=4k");
        assert_eq!(subject.description().command, "plyfs mount -f fat:DEVICE(block=4k) MOUNT");
        let subject = mounted_with(subject, "writes=back");
        assert_eq!(subject.name, "plyfs fat block=4k writes=back");
        assert_eq!(subject.description().command, "plyfs mount -f -o writes=back fat:DEVICE(block=4k) MOUNT");
    }
}
