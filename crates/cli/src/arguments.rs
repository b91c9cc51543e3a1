//! The command line of `plyfs`, and that of `mount.plyfs`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};

use crate::exit;
use crate::options::Uring;

/// Stack thin layers on any file system, and mount the result.
///
/// A stack is written like a shell pipeline, base first: "/srv/data | audit | readonly". A base is a path or kind:location (such as mem:), a layer is a name with options in parentheses: audit(file=/var/log/access.json).
#[derive(Debug, Parser)]
#[command(name = "plyfs", version, after_long_help = exit::table())]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Mount a stack
    ///
    /// Returns when the mount is usable, and leaves a server process in the background.
    #[command(after_long_help = exit::table())]
    Mount(Mount),
    /// Unmount, and wait until the server has ended
    Umount(Umount),
    /// List the mounts, with their stacks, servers and request counts
    Status(Status),
    /// Print what the mounts have done since they were made, and how long it took
    Stats(Stats),
    /// Show what the mounts do and how long it takes, again and again; q ends it
    Top(Top),
    /// Show or change how much a running mount logs
    LogLevel(LogLevel),
    /// Send a command to a layer or base of a running mount
    Control(Control),
    /// Run a command in a fork of a stack, show what it changed, and commit or discard that
    ///
    /// The command sees and changes a fork that nobody else sees, in the place of the directory that the stack is on, in which it has to be started. What it changes elsewhere stays changed: --stack / forks everything. Afterwards the differences are shown, and on a terminal it is asked what to do with them. Ends as the command ends (128 and the number of a signal that ended it), or with 125 if something else failed, 126 if the command cannot be started, 127 if there is none.
    Run(Run),
    /// Build a stack without mounting it, and tell what it is made of and what follows for caching
    Explain(Explain),
    /// List the layers that a stack can have, or show the options of one
    Layers(Layers),
    /// Work in a stack without mounting it
    Shell(Shell),
    /// Begin, check, explain, test and reload descriptions of file systems in the language FiST
    #[command(subcommand)]
    Fist(Fist),
    /// Give a command that a description of a mount declares
    Ioctl(Ioctl),
    /// Print the completion script for a shell
    Completions(Completions),
    /// Write the man pages into a directory
    Man(Man),
}

/// `plyfs mount`
#[derive(Args, Debug)]
pub struct Mount {
    /// The stack, as "/path | layer | layer(key=value)"; with --over only the layers, which may be ""; with -o remount it may be left out
    #[arg(value_name = "STACK")]
    pub stack: OsString,
    /// The directory to mount on
    #[arg(value_name = "MOUNTPOINT", required_unless_present_any = ["over", "explain", "options"], value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// Mount over this directory itself: it is the base, and is reached only through the layers
    #[arg(long, value_name = "DIR", conflicts_with = "mount_point", value_hint = ValueHint::DirPath)]
    pub over: Option<PathBuf>,
    /// Stay in the foreground; interrupting unmounts
    #[arg(short, long)]
    pub foreground: bool,
    /// Mount options, separated by commas, as in /etc/fstab: those of mount(8), such as ro, noexec, suid, dev, sync, dirsync and remount; allow_other, default_permissions, attr_timeout=SECONDS, entry_timeout=SECONDS, fsname=NAME, locks=base|kernel, max_read=BYTES, nopassthrough, stay_awake=MICROSECONDS, uring=auto|on|off, without=FEATURE[:FEATURE...], writes=back|through
    #[arg(short, value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Whether requests come through io_uring (Linux 6.14): where the kernel offers it, without this option
    #[arg(long, value_name = "WHEN")]
    pub uring: Option<Uring>,
    /// Log every operation with its arguments and result, one line each
    #[arg(long)]
    pub trace: bool,
    /// Print what the stack is made of and what follows for caching before mounting it; without a mount point, only that
    #[arg(long)]
    pub explain: bool,
    /// How much to log: off, error, warn, info, debug, trace, or a list such as info,frontends=debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
    /// Log to this file instead of standard error (foreground) or syslog (background); in the background, what layers write to standard error goes there too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log_file: Option<PathBuf>,
}

/// `plyfs umount`
#[derive(Args, Debug)]
pub struct Umount {
    /// The mount point
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: PathBuf,
    /// Detach now, and clean up when the mount is no longer in use
    #[arg(short, long)]
    pub lazy: bool,
}

/// `plyfs status`
#[derive(Args, Debug)]
pub struct Status {
    /// Only this mount
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `plyfs stats`
#[derive(Args, Debug)]
pub struct Stats {
    /// Only this mount
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "prometheus")]
    pub json: bool,
    /// Print what Prometheus reads (OpenMetrics), with all times as histograms
    #[arg(long)]
    pub prometheus: bool,
}

/// `plyfs top`
#[derive(Args, Debug)]
pub struct Top {
    /// Only this mount, with its operations
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// How long to look each time
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// End after so many times
    #[arg(short = 'n', long, value_name = "TIMES")]
    pub times: Option<u64>,
}

/// A tenth of a second to a day.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "not a number of seconds from 0.1 to 86400".to_owned())
}

/// `plyfs log-level`
#[derive(Args, Debug)]
pub struct LogLevel {
    /// The mount point
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: PathBuf,
    /// The new level: off, error, warn, info, debug, trace, or a list such as info,frontends=debug; without it, print the level
    pub level: Option<String>,
}

/// `plyfs control`
#[derive(Args, Debug)]
pub struct Control {
    /// The mount point
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: PathBuf,
    /// The layer or base, as in the stack
    pub layer: String,
    /// Its command
    pub command: String,
    /// Arguments of the command
    #[arg(value_name = "KEY=VALUE")]
    pub arguments: Vec<String>,
}

/// `plyfs run`
#[derive(Args, Debug)]
#[group(skip)]
pub struct Run {
    /// The stack that is forked, / for everything; without it, the current directory
    #[arg(long, value_name = "STACK")]
    pub stack: Option<OsString>,
    /// Where the command sees the fork; without it, in the place of the one directory that the stack is on
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub at: Option<PathBuf>,
    /// Keep the changes in this directory, which is made if it is missing; with changes that are kept there, go on with these, and without a command, only decide on them
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub scratch: Option<PathBuf>,
    /// Commit the changes without asking, if the command succeeds; otherwise keep them
    #[arg(long, conflicts_with_all = ["discard", "keep"])]
    pub commit: bool,
    /// Discard the changes without asking
    #[arg(long, conflicts_with = "keep")]
    pub discard: bool,
    /// Keep the changes without asking, to decide later
    #[arg(long)]
    pub keep: bool,
    /// Commit also where others have changed the same meanwhile (what they changed there is lost), and remove
    /// the fork even if the stack does not keep all of it
    #[arg(long)]
    pub force: bool,
    /// Print the differences as JSON, on standard output
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// `plyfs explain`
#[derive(Args, Debug)]
pub struct Explain {
    /// The stack
    #[arg(value_name = "STACK")]
    pub stack: OsString,
}

/// `plyfs layers`
#[derive(Args, Debug)]
pub struct Layers {
    /// Only this layer, with its options
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// `plyfs shell`
#[derive(Args, Debug)]
pub struct Shell {
    /// The stack
    #[arg(value_name = "STACK")]
    pub stack: OsString,
    /// Run these commands, separated by ';' or line breaks, and end; "help" lists them. Without it, commands are read from standard input
    #[arg(short, value_name = "COMMANDS")]
    pub commands: Option<OsString>,
}

/// `plyfs fist`
#[derive(Debug, Subcommand)]
pub enum Fist {
    /// Tell what is wrong with descriptions
    ///
    /// Errors and warnings go to standard error, each with its place and what to do. Ends with 1 if a description has errors or cannot be read; warnings alone are no failure.
    Check {
        /// The descriptions
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Write descriptions anew in one layout
    ///
    /// Only blanks and line breaks change, and comments stay where they stand. A description with errors of syntax is told and left as it is.
    Fmt {
        /// Write nothing: name the files whose layout is another, and end with 1 if there is one
        #[arg(long)]
        check: bool,
        /// The descriptions; - is standard input, which is written to standard output
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Begin a description: write NAME.fist, with a rule and a comment on each section
    New {
        /// Its name, with which the names of its filter functions begin: letters, digits and _
        name: String,
        /// The directory to write it into; without it, the current one
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
    /// Run transcripts of what descriptions do, on file systems in memory
    ///
    /// NAME.fist.test is a transcript of NAME.fist: commands of plyfs shell behind "$ ", and below each what it prints. "1000$ " does it as that user, "below$ " on what lies below. A line "options KEY=VALUE" before the first command gives options to the layer.
    Test {
        /// The transcripts
        #[arg(value_name = "NAME.fist.test", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Tell what fires at each operation, in its order
    ///
    /// With --ir it prints the intermediate form of the descriptions as one program: what is run, or made code for another place of. Each function has how deep it calls others, how much of the stack it takes on this machine, and what it may do besides computing.
    Explain {
        /// Print the intermediate form instead; several descriptions, the lowest first as in a stack, are one program
        #[arg(long)]
        ir: bool,
        /// The descriptions
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Make one layer of descriptions that lie on each other, and tell what fires in it and what it gains
    ///
    /// A stack does the same by itself with descriptions that lie directly on each other. Descriptions are one layer only where nothing else shows it; what stands in the way is told, and ends with 1.
    Collapse {
        /// The descriptions, the lowest first, as in a stack
        #[arg(value_name = "FILE", required = true, num_args = 2.., value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Have a running mount read its description again
    ///
    /// Files stay open, and what the mount keeps stays where its layout is as it was. A description that is wrong, or that needs what was settled otherwise when it was mounted, is refused, and the old one goes on.
    Reload {
        /// Where it is mounted
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// Of several descriptions in a stack, the file name of the one; without it, the only one
        #[arg(value_name = "NAME.fist")]
        description: Option<String>,
    },
    /// Serve an editor, over standard input and output, by the Language Server Protocol
    Lsp,
}

/// `plyfs ioctl`
#[derive(Args, Debug)]
pub struct Ioctl {
    /// What it is given to: the mount point, or a file or directory in the mount
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// The command, as the description declares it
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its data: numbers; text or @FILE for arrays of bytes; numbers with colons between them for other arrays. What is left out is zero
    #[arg(value_name = "FIELD=VALUE")]
    pub fields: Vec<String>,
}

/// `plyfs completions`
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `plyfs man`
#[derive(Args, Debug)]
pub struct Man {
    /// The directory, which is made if it is missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}

/// Mount a stack, as the helper of mount(8): `mount -t plyfs STACK DIR`, or a line of /etc/fstab.
#[derive(Debug, Parser)]
#[command(name = "mount.plyfs", version)]
pub struct Helper {
    /// The stack
    #[arg(value_name = "STACK")]
    pub stack: OsString,
    /// The directory to mount on
    #[arg(value_name = "MOUNTPOINT")]
    pub mount_point: PathBuf,
    /// Ignore unknown options
    #[arg(short)]
    pub sloppy: bool,
    /// Do everything but the mount itself
    #[arg(short)]
    pub fake: bool,
    /// Do not write /etc/mtab; it never is
    #[arg(short)]
    pub no_mtab: bool,
    /// Say what is done
    #[arg(short)]
    pub verbose: bool,
    /// Mount options, separated by commas
    #[arg(short, value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// The type, plyfs or fuse.plyfs
    #[arg(short = 't', value_name = "TYPE")]
    pub kind: Option<String>,
}
