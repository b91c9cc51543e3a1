//! What is measured: the lower file system itself, plyfs with each stack, and the peers, each with how it is mounted.
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `--subjects` accepts; a family is several subjects where several stacks are measured.
pub const FAMILIES: &[&str] = &["native", "plyfs", "overlayfs", "bindfs", "mergerfs", "fuse-overlayfs", "unionfs-fuse"];

/// The subject that the ratios refer to.
pub const NATIVE: &str = "native";

const PLYFS: &str = "plyfs";

/// How a subject comes to be mounted.
pub enum Style {
    /// The directory is used as it is.
    Directory,
    /// A command that returns when the mount is there.
    Command,
    /// A server that stays in the foreground.
    Server,
    /// A server that mounts over the directory itself.
    ServerOver,
}

/// One thing to measure.
pub struct Subject {
    /// Shown in the results.
    pub name: String,
    /// One of [`FAMILIES`].
    pub family: &'static str,
    /// How it is mounted.
    pub style: Style,
    /// The program.
    pub program: PathBuf,
    /// Its arguments, with `{data}`, `{mount}`, `{work}` and `{empty}` for directories.
    pub arguments: Vec<String>,
    version_arguments: &'static [&'static str],
}

/// The directories of one subject.
pub struct Places {
    /// The directory on the lower file system.
    pub data: PathBuf,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// A second directory on the lower file system, for those that need one.
    pub work: PathBuf,
    /// A directory with nothing in it.
    pub empty: PathBuf,
}

impl Subject {
    /// The command that mounts it there.
    pub fn command(&self, places: &Places) -> Command {
        let path = |path: &Path| path.to_str().expect("the harness made the path of ASCII").to_owned();
        let mut command = Command::new(&self.program);
        command.args(self.filled(&path(&places.data), &path(&places.mount), &path(&places.work), &path(&places.empty)));
        command
    }

    /// The command as the results show it, with no path of this machine.
    pub fn shown_command(&self) -> String {
        let file = self.program.file_name().unwrap_or_default().to_string_lossy();
        // However the program under test is called in a build directory.
        let program = if self.family == PLYFS { PLYFS.into() } else { file };
        let words = self.filled("DIRECTORY", "MOUNT", "WORK", "EMPTY");
        let quoted = words.iter().map(|word| if word.contains(' ') { format!("'{word}'") } else { word.clone() });
        std::iter::once(program.into_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
    }

    fn filled(&self, data: &str, mount: &str, work: &str, empty: &str) -> Vec<String> {
        let fill = |argument: &String| {
            argument.replace("{data}", data).replace("{mount}", mount).replace("{work}", work).replace("{empty}", empty)
        };
        self.arguments.iter().map(fill).collect()
    }

    /// Why it cannot be measured, if so.
    pub fn missing(&self) -> Option<String> {
        match self.style {
            Style::Directory => None,
            Style::Command => {
                let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
                (!known.contains("\toverlay\n")).then(|| "the kernel has no overlayfs".to_owned())
            }
            Style::Server | Style::ServerOver => (!is_program(&self.program)).then(|| match self.family {
                PLYFS => format!("no {}: build it, or say where it is by --plyfs", self.program.display()),
                package => format!("not installed: apt-get install {package}"),
            }),
        }
    }

    /// What the program says of its version, in one line.
    pub fn version(&self) -> Option<String> {
        if matches!(self.style, Style::Directory | Style::Command) {
            let system = rustix::system::uname();
            return Some(format!("Linux {}", system.release().to_string_lossy()));
        }
        let output = Command::new(&self.program).args(self.version_arguments).stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout })
            .into_owned();
        let has_digits = |line: &&str| line.contains(|character: char| character.is_ascii_digit());
        // Some tell the versions of their helpers first.
        let own = text.lines().filter(has_digits).find(|line| line.contains(self.family));
        let line = own.or_else(|| text.lines().find(has_digits))?;
        Some(line.trim().replace(" version:", "").replace(": version", ""))
    }
}

/// Every subject, in the order of the results; whether it is there is for [`Subject::missing`] to say.
pub fn all(plyfs: &Path, stacks: &[String], plyfs_arguments: &str) -> Vec<Subject> {
    let mut all = vec![Subject {
        name: NATIVE.to_owned(),
        family: NATIVE,
        style: Style::Directory,
        program: PathBuf::new(),
        arguments: Vec::new(),
        version_arguments: &[],
    }];
    all.extend(stacks.iter().map(|stack| plyfs_subject(plyfs, stack, plyfs_arguments)));
    all.extend(PEERS.iter().map(|peer| Subject {
        name: peer.name.to_owned(),
        family: peer.name,
        style: if peer.program == "mount" { Style::Command } else { Style::Server },
        program: PathBuf::from(peer.program),
        arguments: peer.arguments.iter().map(|word| (*word).to_owned()).collect(),
        version_arguments: &["-V"],
    }));
    all
}

/// A stack that begins with this is mounted over the directory itself.
const OVER: &str = "over:";

fn plyfs_subject(program: &Path, stack: &str, more: &str) -> Subject {
    let mut arguments = vec!["mount".to_owned(), "-f".to_owned()];
    arguments.extend(more.split_whitespace().map(str::to_owned));
    let (name, style) = match stack.strip_prefix(OVER) {
        Some(layers) => {
            arguments.extend(["--over", "{data}", layers.trim()].map(str::to_owned));
            (format!("plyfs --over {}", layers.trim()), Style::ServerOver)
        }
        None => {
            arguments.extend([stack.replace("{}", "{data}"), "{mount}".to_owned()]);
            (format!("plyfs {}", stack.replace("{}", "dir")), Style::Server)
        }
    };
    Subject {
        name,
        family: PLYFS,
        style,
        program: std::path::absolute(program).unwrap_or_else(|_| program.to_owned()),
        arguments,
        version_arguments: &["--version"],
    }
}

struct Peer {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

/// Each peer with the settings that its own manual recommends for speed and that keep it correct for a directory
/// reached through the mount only: caching for a minute, several threads, large writes.
const PEERS: &[Peer] = &[
    Peer {
        name: "overlayfs",
        program: "mount",
        arguments: &["-t", "overlay", "overlay", "-o", "lowerdir={empty},upperdir={data},workdir={work}", "{mount}"],
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
    },
    Peer {
        name: "mergerfs",
        program: "mergerfs",
        arguments: &[
            "-f",
            "-o",
            "allow_other,use_ino,cache.files=auto-full,cache.entry=60,cache.attr=60,\
             cache.symlinks=true,cache.readdir=true,cache.statfs=60",
            "{data}",
            "{mount}",
        ],
    },
    Peer {
        name: "fuse-overlayfs",
        program: "fuse-overlayfs",
        arguments: &["-f", "-o", "lowerdir={empty},upperdir={data},workdir={work}", "{mount}"],
    },
    Peer {
        name: "unionfs-fuse",
        program: "unionfs",
        arguments: &[
            "-f",
            "-o",
            "cow,allow_other,use_ino,suid,dev,big_writes,auto_cache,default_permissions,entry_timeout=60,attr_timeout=60",
            "{data}=RW",
            "{mount}",
        ],
    },
];

fn is_program(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
