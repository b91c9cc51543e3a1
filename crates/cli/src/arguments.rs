//! The command line of `plyfs`, and that of `mount.plyfs`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};

use crate::exit;
use crate::options::Uring;

/// Stack thin layers on any file system, and mount the result.
///
/// A stack is written like a shell pipeline, base first: "/srv/data | audit | readonly". A base is a path or kind:location (such as mem:), a layer is a name with options in parentheses: audit(to=/var/log/access.json). Some bases have options, too.
#[derive(Debug, Parser)]
#[command(name = "plyfs", version, after_long_help = exit::table())]
pub struct Arguments {
    /// Command.
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
    ///
    /// Of several mount points, each is unmounted even if another cannot be; the exit code is that of the first failure.
    Umount(Umount),
    /// List the mounts, with their stacks, servers and request counts
    Status(Status),
    /// Print request counts and latencies of the mounts since they were mounted
    Stats(Stats),
    /// Show request rates and latencies of the mounts, updated continuously; q quits
    Top(Top),
    /// Show or change the log level of a running mount
    LogLevel(LogLevel),
    /// Send a control command to a layer or base of a running mount
    Control(Control),
    /// Run a command in a fork of a stack, show its changes, and commit or discard them
    ///
    /// The command runs in a private fork, mounted over the directory that the stack is based on; the current directory must be inside it. Changes outside the fork are real: to fork the whole tree, use --stack /. When the command has ended, its changes are listed, and on a terminal plyfs asks whether to commit, discard or keep them. The exit status is that of the command (128+N if signal N killed it), 125 if plyfs itself fails, 126 if the command cannot be executed, 127 if it is not found.
    Run(Run),
    /// Describe a stack without mounting it: its members, what they declare, and what the kernel may cache
    Explain(Explain),
    /// List the available layers, and the FiST programs on the search path, or the options and control commands of one
    Layers(Layers),
    /// List the available kinds of bases, or the options of one
    Bases(Bases),
    /// Work in a stack interactively, without mounting it
    Shell(Shell),
    /// Create, check, explain, test and reload file systems written in the FiST language
    #[command(subcommand)]
    Fist(Fist),
    /// Send an ioctl that a FiST program in a mount declares
    Ioctl(Ioctl),
    /// Print the completion script for a shell
    Completions(Completions),
    /// Write the man pages into a directory
    Man(Man),
}

/// `plyfs mount`
#[derive(Args, Debug)]
pub struct Mount {
    /// Stack expression, such as "/path | layer | layer(key=value)"; with --over, only the layers (possibly ""), or a stack on that directory; optional with -o remount
    #[arg(value_name = "STACK")]
    pub stack: OsString,
    /// Directory to mount on
    #[arg(value_name = "MOUNTPOINT", required_unless_present_any = ["over", "explain", "options"], value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// Mount over this directory: it becomes the base, accessible only through the layers
    #[arg(long, value_name = "DIR", conflicts_with = "mount_point", value_hint = ValueHint::DirPath)]
    pub over: Option<PathBuf>,
    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    pub foreground: bool,
    /// Comma-separated mount options, as in /etc/fstab: those of mount(8), such as ro, noexec, suid, dev, sync, dirsync and remount; allow_other, default_permissions, attr_timeout=SECONDS, entry_timeout=SECONDS, fsname=NAME, locks=base|kernel, log-file=FILE, log-level=LEVEL, max_read=BYTES, nopassthrough, over, read_ahead=BYTES, stay_awake=MICROSECONDS, uring=auto|on|off, without=FEATURE[:FEATURE...], writes=back|through
    #[arg(short, value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Whether to receive requests through io_uring (Linux 6.14); by default, if the kernel supports it
    #[arg(long, value_name = "WHEN")]
    pub uring: Option<Uring>,
    /// Log each operation with its arguments and result
    #[arg(long)]
    pub trace: bool,
    /// Describe the stack, as plyfs explain does, before mounting it; without a mount point, do not mount
    #[arg(long)]
    pub explain: bool,
    /// Log level: off, error, warn, info, debug, trace, or a list such as info,frontends=debug; by default, info
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Log to this file instead of standard error (foreground) or syslog (background); in the background, it also receives what layers write to standard error
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log_file: Option<PathBuf>,
}

/// `plyfs umount`
#[derive(Args, Debug)]
pub struct Umount {
    /// Mount points, unmounted in this order
    #[arg(value_name = "MOUNTPOINT", required_unless_present = "all", value_hint = ValueHint::DirPath)]
    pub mount_points: Vec<PathBuf>,
    /// Unmount all mounts of the caller, the last one made first
    #[arg(short, long, conflicts_with = "mount_points")]
    pub all: bool,
    /// Detach the mount now, and clean up when it is no longer in use
    #[arg(short, long)]
    pub lazy: bool,
    /// If the server does not answer, abort its connection, which loses unwritten data, and detach the mount
    #[arg(short, long)]
    pub force: bool,
}

/// `plyfs status`
#[derive(Args, Debug)]
pub struct Status {
    /// Show only this mount
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `plyfs stats`
#[derive(Args, Debug)]
pub struct Stats {
    /// Show only this mount
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "prometheus")]
    pub json: bool,
    /// Print OpenMetrics for Prometheus, with latencies as histograms
    #[arg(long)]
    pub prometheus: bool,
}

/// `plyfs top`
#[derive(Args, Debug)]
pub struct Top {
    /// Show only this mount, by operation
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// Interval between updates, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Number of updates; by default, run until q is pressed
    #[arg(short = 'n', long, value_name = "TIMES")]
    pub times: Option<u64>,
}

/// A tenth of a second to a day.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "not a number of seconds between 0.1 and 86400".to_owned())
}

/// `plyfs log-level`
#[derive(Args, Debug)]
pub struct LogLevel {
    /// Mount point
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: PathBuf,
    /// New level: off, error, warn, info, debug, trace, or a list such as info,frontends=debug; by default, print the current level
    pub level: Option<String>,
}

/// `plyfs control`
#[derive(Args, Debug)]
pub struct Control {
    /// Mount point
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: PathBuf,
    /// Name of the layer or base, as in the stack
    pub layer: String,
    /// Control command; plyfs layers LAYER lists those of a layer
    pub command: String,
    /// Arguments of the command
    #[arg(value_name = "KEY=VALUE")]
    pub arguments: Vec<String>,
}

/// `plyfs run`
#[derive(Args, Debug)]
#[group(skip)]
pub struct Run {
    /// Stack to fork, or / for the whole tree; by default, the current directory
    #[arg(long, value_name = "STACK")]
    pub stack: Option<OsString>,
    /// Mount point of the fork; by default, the directory that the stack is based on
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub at: Option<PathBuf>,
    /// Directory for the changes, created if missing; if it contains a kept fork, resume that, or, without a command, only commit or discard it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub scratch: Option<PathBuf>,
    /// Commit the changes without asking if the command succeeds, and keep them otherwise
    #[arg(long, conflicts_with_all = ["discard", "keep"])]
    pub commit: bool,
    /// Discard the changes without asking
    #[arg(long, conflicts_with = "keep")]
    pub discard: bool,
    /// Keep the changes without asking, to commit or discard them later
    #[arg(long)]
    pub keep: bool,
    /// Overwrite conflicting changes by others, and remove the fork even if the stack cannot store all of it
    #[arg(long)]
    pub force: bool,
    /// Print the changes as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Command to run, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// `plyfs explain`
#[derive(Args, Debug)]
pub struct Explain {
    /// Stack expression
    #[arg(value_name = "STACK")]
    pub stack: OsString,
}

/// `plyfs layers`
#[derive(Args, Debug)]
pub struct Layers {
    /// Show the options and control commands of this layer
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// `plyfs bases`
#[derive(Args, Debug)]
pub struct Bases {
    /// Show the location and the options of this kind of base
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// `plyfs shell`
#[derive(Args, Debug)]
pub struct Shell {
    /// Stack expression
    #[arg(value_name = "STACK")]
    pub stack: OsString,
    /// Run these commands, separated by ';' or newlines, and exit; "help" lists them. By default, commands are read from standard input
    #[arg(short, value_name = "COMMANDS")]
    pub commands: Option<OsString>,
}

/// `plyfs fist`
#[derive(Debug, Subcommand)]
pub enum Fist {
    /// Check FiST programs
    ///
    /// Errors and warnings go to standard error, each with its location and a remedy. Exits with 1 if a program has errors or cannot be read; warnings alone are not a failure.
    Check {
        /// FiST programs
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Format FiST programs
    ///
    /// Only white space changes; comments stay in place. A program with syntax errors is reported and left unchanged.
    Fmt {
        /// Write nothing; list the files that are not formatted, and exit with 1 if there are any
        #[arg(long)]
        check: bool,
        /// FiST programs; - reads standard input and writes standard output
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Create NAME.fist from a template, with a rule and a comment in each section
    New {
        /// Name of the file system, and prefix of its filter functions: letters, digits and _
        name: String,
        /// Directory to create it in; by default, the current directory
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
    /// Test FiST programs against transcripts, on in-memory file systems
    ///
    /// NAME.fist.test is a transcript for NAME.fist: commands of plyfs shell after "$ ", each followed by its expected output. "1000$ " runs the command as that user, "below$ " on the lower file system. A line "options KEY=VALUE" before the first command sets options of the layer.
    Test {
        /// Transcripts
        #[arg(value_name = "NAME.fist.test", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// List the rules that fire at each operation, in order
    ///
    /// With --ir, prints the intermediate representation of the programs, merged into one. Each function is annotated with its call depth, its stack usage on this machine, and its side effects.
    Explain {
        /// Print the intermediate representation instead; several programs, lowest first as in a stack, are merged
        #[arg(long)]
        ir: bool,
        /// FiST programs
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Collapse stacked FiST programs into one layer, and report the rules that fire in it and the gain
    ///
    /// A stack does this automatically for FiST programs that are directly on each other. Programs are collapsed only if the result behaves the same; otherwise the obstacle is reported, and the exit status is 1.
    Collapse {
        /// FiST programs, lowest first, as in a stack
        #[arg(value_name = "FILE", required = true, num_args = 2.., value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Reload the FiST program of a running mount
    ///
    /// Files stay open, and the state of the mount is kept where its layout is unchanged. A program that has errors, or that is incompatible with decisions made at mount time, is refused, and the old one remains in use.
    Reload {
        /// Mount point
        #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
        mount_point: PathBuf,
        /// File name of the program, if the stack has several
        #[arg(value_name = "NAME.fist")]
        description: Option<String>,
    },
    /// Run the language server for editors (LSP over standard input and output)
    Lsp,
}

/// `plyfs ioctl`
#[derive(Args, Debug)]
pub struct Ioctl {
    /// Mount point, or a file or directory in the mount
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// Name of the ioctl, as declared in the FiST program
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Argument fields: numbers; text or @FILE for byte arrays; colon-separated numbers for other arrays. Omitted fields are zero
    #[arg(value_name = "FIELD=VALUE")]
    pub fields: Vec<String>,
}

/// `plyfs completions`
#[derive(Args, Debug)]
pub struct Completions {
    /// Shell
    pub shell: clap_complete::Shell,
}

/// `plyfs man`
#[derive(Args, Debug)]
pub struct Man {
    /// Output directory, created if missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}

/// Mount a stack, as the helper of mount(8): `mount -t plyfs STACK DIR`, or a line of /etc/fstab.
#[derive(Debug, Parser)]
#[command(name = "mount.plyfs", version)]
pub struct Helper {
    /// Stack expression
    #[arg(value_name = "STACK")]
    pub stack: OsString,
    /// Directory to mount on
    #[arg(value_name = "MOUNTPOINT")]
    pub mount_point: PathBuf,
    /// Ignore unknown options
    #[arg(short)]
    pub sloppy: bool,
    /// Do everything except the mount system call
    #[arg(short)]
    pub fake: bool,
    /// Do not write /etc/mtab (accepted and ignored)
    #[arg(short)]
    pub no_mtab: bool,
    /// Be verbose
    #[arg(short)]
    pub verbose: bool,
    /// Comma-separated mount options
    #[arg(short, value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// File system type, plyfs or fuse.plyfs
    #[arg(short = 't', value_name = "TYPE")]
    pub kind: Option<String>,
    /// Stay in the foreground, as the commands of other file systems do with -f
    #[arg(long, hide = true)]
    pub foreground: bool,
}
