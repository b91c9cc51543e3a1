//! The measured subjects: the lower file system itself, plyfs with each stack, and the peers, each with its mount command.
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::system_tools::{is_program, kernel_version, reported_version};

/// Values that `--subjects` accepts; a family has several subjects where several stacks are measured.
pub(crate) const FAMILIES: &[&str] =
    &[NATIVE, PLYFS, OVERLAYFS, "bindfs", "mergerfs", "fuse-overlayfs", "unionfs-fuse"];

/// The reference subject of the ratios.
pub(crate) const NATIVE: &str = "native";

/// The subject that is part of the kernel.
pub(crate) const OVERLAYFS: &str = "overlayfs";

const PLYFS: &str = "plyfs";

/// The way in which a subject is mounted.
pub(crate) enum MountStyle {
    /// The directory is used directly.
    Directory,
    /// A command that returns once the mount exists.
    Command,
    /// A server that stays in the foreground.
    Server,
    /// A server that mounts over the directory itself.
    ServerOver,
}

/// A measured subject.
pub(crate) struct Subject {
    /// Name shown in the results.
    pub name: String,
    /// One of [`FAMILIES`].
    pub family: &'static str,
    /// The way in which it is mounted.
    pub style: MountStyle,
    /// The program.
    pub program: PathBuf,
    /// Its arguments, with placeholders in braces for directories: see [`DirectoryNames::fill`].
    pub arguments: Vec<String>,
    /// Number of directories that it joins.
    pub branches: usize,
    /// Name for any number of branches; `None` if only one directory is measured.
    pub series: Option<String>,
    version_arguments: &'static [&'static str],
}

/// The directories of one subject.
pub(crate) struct SubjectDirectories {
    /// The directory that contains all of them except the mount point.
    pub own: PathBuf,
    /// The directory on the lower file system; with several branches, the first.
    pub data: PathBuf,
    /// The branches after the first.
    pub lower: Vec<PathBuf>,
    /// The mount point.
    pub mount: PathBuf,
    /// A second directory on the lower file system, for subjects that need one.
    pub work: PathBuf,
    /// An empty directory.
    pub empty: PathBuf,
}

/// The directories of one subject, as written in its arguments.
struct DirectoryNames {
    branches: Vec<String>,
    mount: String,
    work: String,
    empty: String,
}

impl DirectoryNames {
    fn of(directories: &SubjectDirectories, show: impl Fn(&Path) -> String) -> Self {
        Self {
            branches: std::iter::once(&directories.data).chain(&directories.lower).map(|path| show(path)).collect(),
            mount: path_text(&directories.mount),
            work: show(&directories.work),
            empty: show(&directories.empty),
        }
    }

    /// Returns the names for the results, without paths of this machine.
    fn placeholders(branches: usize) -> Self {
        let lower = (1..branches).map(|number| format!("BRANCH{number}"));
        Self {
            branches: std::iter::once("DIRECTORY".to_owned()).chain(lower).collect(),
            mount: "MOUNT".to_owned(),
            work: "WORK".to_owned(),
            empty: "EMPTY".to_owned(),
        }
    }

    /// Replaces the placeholders in braces by directories.
    fn fill(&self, argument: &str) -> String {
        let joined = |suffix: &str, between: &str| {
            self.branches.iter().map(|branch| format!("{branch}{suffix}")).collect::<Vec<_>>().join(between)
        };
        let below: String = self.branches[1..].iter().map(|branch| format!(", {branch}=ro")).collect();
        let lower = if self.branches.len() > 1 { self.branches[1..].join(":") } else { self.empty.clone() };
        let words = [
            ("{data}", self.branches[0].clone()),
            ("{mount}", self.mount.clone()),
            ("{work}", self.work.clone()),
            ("{empty}", self.empty.clone()),
            // All branches, all but the first, and in the form of stack expressions: all writable, or only the first.
            ("{all}", joined("", ":")),
            ("{all=RW}", joined("=RW", ":")),
            ("{lower}", lower),
            ("{rw}", joined("=rw", ", ")),
            ("{ro}", format!("{}=rw{below}", self.branches[0])),
        ];
        words.iter().fold(argument.to_owned(), |text, (word, directories)| text.replace(word, directories))
    }
}

fn path_text(path: &Path) -> String {
    path.to_str().expect("the harness made the path of ASCII").to_owned()
}

impl Subject {
    /// Returns the command that mounts it there.
    pub(crate) fn command(&self, directories: &SubjectDirectories) -> Command {
        let mut command = Command::new(&self.program);
        let names = match self.style {
            // Mount options must fit into a page, and with the newer mount API into 256 bytes each, so many branches need short
            // names.
            MountStyle::Command => {
                command.current_dir(&directories.own);
                DirectoryNames::of(directories, |path| {
                    path_text(path.strip_prefix(&directories.own).expect("they are in it"))
                })
            }
            _ => DirectoryNames::of(directories, path_text),
        };
        command.args(self.arguments.iter().map(|argument| names.fill(argument)));
        command
    }

    /// Returns the command for the results, without paths of this machine.
    pub(crate) fn shown_command(&self) -> String {
        let file = self.program.file_name().unwrap_or_default().to_string_lossy();
        // The program under test may have another name in a build directory.
        let program = if self.family == PLYFS { PLYFS.into() } else { file };
        let names = DirectoryNames::placeholders(self.branches);
        let words = self.arguments.iter().map(|argument| names.fill(argument));
        let quoted = words.map(|word| if word.contains(' ') { format!("'{word}'") } else { word });
        std::iter::once(program.into_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command that reports the statistics of a mount's server, if there is one.
    pub(crate) fn statistics(&self, mount_point: &Path) -> Option<Command> {
        (self.family == PLYFS).then(|| {
            let mut command = Command::new(&self.program);
            command.args(["stats", "--json"]).arg(mount_point);
            command
        })
    }

    /// Returns the reason why it cannot be measured, if there is one.
    pub(crate) fn unavailable_reason(&self) -> Option<String> {
        match self.style {
            MountStyle::Directory => None,
            MountStyle::Command => {
                (!procfs::has_file_system("overlay")).then(|| "the kernel has no overlayfs".to_owned())
            }
            MountStyle::Server | MountStyle::ServerOver => (!is_program(&self.program)).then(|| match self.family {
                PLYFS => format!("no {}: build it, or say where it is by --plyfs", self.program.display()),
                package => format!("not installed: apt-get install {package}"),
            }),
        }
    }

    /// Returns the version that the program reports, in one line.
    pub(crate) fn version(&self) -> Option<String> {
        if matches!(self.style, MountStyle::Directory | MountStyle::Command) {
            return Some(kernel_version());
        }
        reported_version(&self.program, self.version_arguments, self.family)
    }
}

/// Returns every subject, in the order of the results; [`Subject::unavailable_reason`] reports whether it is available.
pub(crate) fn all(plyfs: &Path, stacks: &[String], plyfs_arguments: &str) -> Vec<Subject> {
    let mut all = vec![native()];
    all.extend(stacks.iter().map(|stack| plyfs_subject(plyfs, stack, plyfs_arguments)));
    all.extend(PEERS.iter().map(Peer::subject));
    all
}

/// Returns only stacks.
pub(crate) fn stacks(plyfs: &Path, stacks: &[&str], plyfs_arguments: &str) -> Vec<Subject> {
    stacks.iter().map(|stack| plyfs_subject(plyfs, stack, plyfs_arguments)).collect()
}

/// Returns the subjects that can join branches, once for each number of branches. The lower file system needs no branches for
/// the same contents, and is returned once.
pub(crate) fn unions(plyfs: &Path, stacks: &[String], plyfs_arguments: &str, branches: &[usize]) -> Vec<Subject> {
    let mut all = vec![native()];
    for &branches in branches {
        let own = stacks.iter().map(|stack| {
            let subject = plyfs_subject(plyfs, stack, plyfs_arguments);
            Subject { name: subject.name.replace("{rw}", "all rw").replace("{ro}", "one rw"), ..subject }
        });
        let peers = PEERS.iter().filter_map(Peer::union);
        all.extend(own.chain(peers).map(|subject| Subject {
            name: format!("{} ({branches})", subject.name),
            series: Some(subject.name),
            branches,
            ..subject
        }));
    }
    all
}

fn native() -> Subject {
    Subject {
        name: NATIVE.to_owned(),
        family: NATIVE,
        style: MountStyle::Directory,
        program: PathBuf::new(),
        arguments: Vec::new(),
        branches: 1,
        series: None,
        version_arguments: &[],
    }
}

/// Prefix of a stack that is mounted over the directory itself.
const OVER: &str = "over:";

/// Prefix of a stack that is mounted without passthrough, as on kernels before Linux 6.9.
const NO_PASSTHROUGH: &str = "nopassthrough:";

fn plyfs_subject(program: &Path, stack: &str, extra_arguments: &str) -> Subject {
    let (stack, extra_arguments) = match stack.strip_prefix(NO_PASSTHROUGH) {
        Some(stack) => (stack.trim(), &*format!("-o nopassthrough {extra_arguments}")),
        None => (stack, extra_arguments),
    };
    let mut arguments = vec!["mount".to_owned(), "-f".to_owned()];
    arguments.extend(extra_arguments.split_whitespace().map(str::to_owned));
    // A subject with additional arguments differs from the one without them.
    let extra_arguments: String = extra_arguments.split_whitespace().map(|argument| format!(" {argument}")).collect();
    let (name, style) = match stack.strip_prefix(OVER) {
        Some(layers) => {
            arguments.extend(["--over", "{data}", layers.trim()].map(str::to_owned));
            (format!("plyfs --over {}{extra_arguments}", layers.trim()), MountStyle::ServerOver)
        }
        None => {
            arguments.extend([stack.replace("{}", "{data}"), "{mount}".to_owned()]);
            (format!("plyfs {}{extra_arguments}", stack.replace("{}", "dir")), MountStyle::Server)
        }
    };
    Subject {
        name,
        family: PLYFS,
        style,
        program: std::path::absolute(program).unwrap_or_else(|_| program.to_owned()),
        arguments,
        branches: 1,
        series: None,
        version_arguments: &["--version"],
    }
}

struct Peer {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// Additional options for joining branches; `None` if it cannot join them.
    union_options: Option<&'static str>,
}

impl Peer {
    fn subject(&self) -> Subject {
        Subject {
            name: self.name.to_owned(),
            family: self.name,
            style: if self.program == "mount" { MountStyle::Command } else { MountStyle::Server },
            program: PathBuf::from(self.program),
            arguments: self.arguments.iter().map(|word| (*word).to_owned()).collect(),
            branches: 1,
            series: None,
            version_arguments: &["-V"],
        }
    }

    fn union(&self) -> Option<Subject> {
        let options = self.union_options?;
        let mut subject = self.subject();
        if !options.is_empty() {
            let position = subject.arguments.len() - 2;
            subject.arguments.splice(position..position, ["-o", options].map(str::to_owned));
        }
        Some(subject)
    }
}

/// Each peer with the settings that its own manual recommends for speed and that keep it correct for a directory accessed only
/// through the mount: caching for a minute, several threads, large writes.
const PEERS: &[Peer] = &[
    Peer {
        name: OVERLAYFS,
        program: "mount",
        arguments: &["-t", "overlay", "overlay", "-o", "lowerdir={lower},upperdir={data},workdir={work}", "{mount}"],
        union_options: Some(""),
    },
    Peer {
        name: "bindfs",
        program: "bindfs",
        arguments: &[
            "-f",
            "--multithreaded",
            "-o",
            "auto_cache,big_writes,entry_timeout=60,attr_timeout=60",
            "{data}",
            "{mount}",
        ],
        union_options: None,
    },
    Peer {
        name: "mergerfs",
        program: "mergerfs",
        arguments: &[
            "-f",
            "-o",
            "allow_other,use_ino,cache.files=auto-full,cache.entry=60,cache.attr=60,\
             cache.symlinks=true,cache.readdir=true,cache.statfs=60",
            "{all}",
            "{mount}",
        ],
        // New files are created in the first branch, as by the others, however little space the image has left.
        union_options: Some("category.create=ff,minfreespace=0"),
    },
    Peer {
        name: "fuse-overlayfs",
        program: "fuse-overlayfs",
        arguments: &["-f", "-o", "lowerdir={lower},upperdir={data},workdir={work}", "{mount}"],
        union_options: Some(""),
    },
    Peer {
        name: "unionfs-fuse",
        program: "unionfs",
        arguments: &[
            "-f",
            "-o",
            "cow,allow_other,use_ino,suid,dev,big_writes,auto_cache,default_permissions,entry_timeout=60,attr_timeout=60",
            "{all=RW}",
            "{mount}",
        ],
        // Its internal directory with the names of deleted files would be listed otherwise.
        union_options: Some("hide_meta_files"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        let stacks = ["{ro} | union".to_owned()];
        let all = unions(Path::new("target/release/plyfs"), &stacks, "", &[1, 3]);
        all.into_iter().find(|subject| subject.name == name).expect("there is one").shown_command()
    }

    #[test]
    fn different_arguments_make_a_different_subject() {
        let all = unions(Path::new("plyfs"), &["{ro} | union".to_owned()], "-o ro  --trace", &[2]);
        let subject = all.iter().find(|subject| subject.name == "plyfs one rw | union -o ro --trace (2)").unwrap();
        assert_eq!(subject.shown_command(), "plyfs mount -f -o ro --trace 'DIRECTORY=rw, BRANCH1=ro | union' MOUNT");
    }

    #[test]
    fn branches_are_written_in_the_syntax_of_each_program() {
        assert_eq!(
            shown("plyfs one rw | union (3)"),
            "plyfs mount -f 'DIRECTORY=rw, BRANCH1=ro, BRANCH2=ro | union' MOUNT"
        );
        assert_eq!(shown("plyfs one rw | union (1)"), "plyfs mount -f 'DIRECTORY=rw | union' MOUNT");
        assert!(shown("mergerfs (3)").ends_with(" DIRECTORY:BRANCH1:BRANCH2 MOUNT"));
        assert!(shown("unionfs-fuse (3)").ends_with(" DIRECTORY=RW:BRANCH1=RW:BRANCH2=RW MOUNT"));
        assert!(shown("overlayfs (3)").contains("lowerdir=BRANCH1:BRANCH2,upperdir=DIRECTORY,"));
        assert!(shown("overlayfs (1)").contains("lowerdir=EMPTY,upperdir=DIRECTORY,"));
    }
}
