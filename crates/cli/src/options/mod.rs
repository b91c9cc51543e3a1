//! Mount options: the comma-separated list of `-o`, as mount(8) and /etc/fstab write it.

pub mod flags;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use stack::suggest;

use crate::exit::{Exit, Failure, Outcome};
use frontends::fuse::Features;

pub use frontends::fuse::MountFlags;

/// The parsed mount options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MountOptions {
    /// Grant other users access; if unset, the mounting user decides: root grants it, others do not.
    pub allow_other: Option<bool>,
    /// Change the options of an existing mount.
    pub remount: bool,
    /// The flags that mount(8) knows.
    pub flags: MountFlags,
    /// Have the kernel check permissions by mode bits before it sends a request.
    pub default_permissions: bool,
    /// Time that the kernel may cache attributes.
    pub attribute_timeout: Option<Duration>,
    /// Time that the kernel may cache names.
    pub entry_timeout: Option<Duration>,
    /// Let the kernel itself read and write the base's files (passthrough) where the stack allows it.
    pub passthrough: Option<bool>,
    /// Pass locks on to the base, where programs outside the mount see them.
    pub base_locks: Option<bool>,
    /// Let the kernel cache writes for a while instead of passing them on at once.
    pub write_back: bool,
    /// Time that CPUs are kept from idling after a request while one caller sends many.
    pub stay_awake: Option<Duration>,
    /// Use of io_uring as the transport of requests.
    pub uring: Option<Uring>,
    /// Features of the FUSE protocol that are not used even if the kernel supports them.
    pub withheld: Features,
    /// Maximum size of a read request, in bytes.
    pub max_read_bytes: Option<u32>,
    /// How far the kernel reads ahead, in bytes.
    pub read_ahead_bytes: Option<u32>,
    /// The source that mount(8) and df(1) show instead of the stack.
    pub source_name: Option<String>,
    /// Mount over the directory that the stack is on.
    pub over: bool,
    /// The log file, as an absolute path; by default, the log goes to standard error or syslog.
    pub log_file: Option<PathBuf>,
    /// The log level, which may be invalid; by default, that of the command line.
    pub log_level: Option<String>,
}

/// Whether requests come through io_uring, with a queue for each processor (Linux 6.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Uring {
    /// Where the kernel offers it.
    Auto,
    /// Turn it on in the kernel, as root; an error where it cannot be used.
    On,
    /// Never.
    Off,
}

impl fmt::Display for Uring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Uring::Auto => "auto",
            Uring::On => "on",
            Uring::Off => "off",
        })
    }
}

/// With a longer time, CPUs would never idle while a program does something now and then.
const MAX_STAY_AWAKE_MICROSECONDS: u64 = 1_000_000;

/// The options of Plyfs itself, in the form in which messages list them.
pub(crate) const PLYFS_OPTIONS: [&str; 18] = [
    "allow_other",
    "noallow_other",
    "attr_timeout",
    "default_permissions",
    "entry_timeout",
    "fsname",
    "locks",
    "log-file",
    "log-level",
    "max_read",
    "over",
    "passthrough",
    "nopassthrough",
    "read_ahead",
    "stay_awake",
    "uring",
    "without",
    "writes",
];

/// Options of mount(8) that concern mount(8) itself and the boot process, or request what no FUSE mount has: change counters
/// (iversion) belong to the base, and Linux no longer has mandatory locks.
const IGNORED_OPTIONS: [&str; 11] =
    ["auto", "noauto", "_netdev", "nofail", "fail", "iversion", "noiversion", "mand", "nomand", "loud", "subtype"];

/// Options that the kernel shows for a mount and that mount(8) passes on for a remount.
const KERNEL_OPTIONS: [&str; 3] = ["user_id", "group_id", "rootmode"];

/// Parses a comma-separated list. With `sloppy`, unknown options are ignored (`mount -s`).
pub fn parse(text: &str, sloppy: bool) -> Outcome<MountOptions> {
    parse_after(MountFlags::default(), text, sloppy)
}

/// As [`parse`], for a mount that already has these flags.
pub fn parse_after(flags: MountFlags, text: &str, sloppy: bool) -> Outcome<MountOptions> {
    let mut options = MountOptions { flags, ..MountOptions::default() };
    let words = words(text);
    options.remount = words.iter().any(|word| word == "remount");
    for word in &words {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (word.as_str(), None),
        };
        let is_known = is_for_other_programs(key)
            || apply(&mut options, key, value)?
            || options.remount && KERNEL_OPTIONS.contains(&key);
        if !is_known && !sloppy {
            return Err(unknown(key));
        }
    }
    Ok(options)
}

impl MountOptions {
    /// Returns the options that differ from the defaults, as `-o` writes them, except for the log level, which also changes without a
    /// remount.
    pub fn to_words(&self) -> Vec<String> {
        [flags::words(&self.flags), self.fixed_words()].concat()
    }

    /// Fails if the options request what only root may grant.
    pub fn check_privileged_options(&self) -> Outcome {
        let privileged = [(!self.flags.no_suid, "suid"), (!self.flags.no_devices, "dev")];
        match privileged.iter().find(|(is_set, _)| *is_set) {
            Some((_, option)) if !rustix::process::geteuid().is_root() => {
                let message = format!("mount option '{option}' is for root only; leave it out");
                Err(Failure::new(Exit::Permission, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns those of them that a remount cannot change.
    pub fn fixed_words(&self) -> Vec<String> {
        let switches = [
            (self.over, "over"),
            (self.allow_other == Some(true), "allow_other"),
            (self.allow_other == Some(false), "noallow_other"),
            (self.default_permissions, "default_permissions"),
            (self.passthrough == Some(true), "passthrough"),
            (self.passthrough == Some(false), "nopassthrough"),
            (self.base_locks == Some(true), "locks=base"),
            (self.base_locks == Some(false), "locks=kernel"),
            (self.write_back, "writes=back"),
        ];
        let mut words: Vec<String> =
            switches.iter().filter(|(set, _)| *set).map(|(_, word)| (*word).to_owned()).collect();
        let seconds =
            |key: &str, timeout: Option<Duration>| timeout.map(|timeout| format!("{key}={}", timeout.as_secs_f64()));
        words.extend(seconds("attr_timeout", self.attribute_timeout));
        words.extend(seconds("entry_timeout", self.entry_timeout));
        words.extend(self.uring.map(|uring| format!("uring={uring}")));
        words.extend(self.stay_awake.map(|time| format!("stay_awake={}", time.as_micros())));
        words.extend((!self.withheld.is_empty()).then(|| format!("without={}", self.withheld)));
        words.extend(self.max_read_bytes.map(|bytes| format!("max_read={bytes}")));
        words.extend(self.read_ahead_bytes.map(|bytes| format!("read_ahead={bytes}")));
        words.extend(self.source_name.as_ref().map(|name| format!("fsname={name}")));
        words.extend(self.log_file.as_ref().map(|path| format!("log-file={}", path.display())));
        words
    }
}

/// Applies an option; returns `false` if no option has that name.
fn apply(options: &mut MountOptions, key: &str, value: Option<&str>) -> Outcome<bool> {
    match key {
        "attr_timeout" => options.attribute_timeout = Some(timeout(key, value)?),
        "entry_timeout" => options.entry_timeout = Some(timeout(key, value)?),
        "fsname" => match value {
            Some(name) if !name.is_empty() => options.source_name = Some(name.to_owned()),
            _ => return Err(invalid_option(key, "needs a name", "fsname=NAME")),
        },
        "locks" => match value {
            Some("base") => options.base_locks = Some(true),
            Some("kernel") => options.base_locks = Some(false),
            _ => return Err(invalid_option(key, "is base or kernel", "locks=base")),
        },
        "log-file" => match value {
            Some(path) if !path.is_empty() => options.log_file = Some(log_file_path(Path::new(path))?),
            _ => return Err(invalid_option(key, "needs the path of a file", "log-file=/var/log/plyfs.log")),
        },
        "log-level" => match value {
            Some(level) if !level.is_empty() => options.log_level = Some(level.to_owned()),
            _ => return Err(invalid_option(key, "needs a level", "log-level=debug")),
        },
        "max_read" => match value.and_then(|value| value.parse().ok()).filter(|bytes| *bytes >= 4096) {
            Some(bytes) => options.max_read_bytes = Some(bytes),
            None => return Err(invalid_option(key, "needs a number of bytes from 4096", "max_read=131072")),
        },
        "read_ahead" => match value.and_then(|value| value.parse().ok()) {
            Some(bytes) => options.read_ahead_bytes = Some(bytes),
            None => return Err(invalid_option(key, "needs a number of bytes", "read_ahead=1048576")),
        },
        "stay_awake" => {
            match value.and_then(|value| value.parse().ok()).filter(|time| *time <= MAX_STAY_AWAKE_MICROSECONDS) {
                Some(microseconds) => options.stay_awake = Some(Duration::from_micros(microseconds)),
                None => return Err(invalid_option(key, "needs microseconds up to 1000000", "stay_awake=200")),
            }
        }
        "uring" => match value.map(|value| Uring::from_str(value, false)) {
            Some(Ok(uring)) => options.uring = Some(uring),
            _ => return Err(invalid_option(key, "is auto, on or off", "uring=on")),
        },
        "without" => match value.unwrap_or_default().parse::<Features>() {
            Ok(features) => options.withheld = options.withheld | features,
            Err(unknown) => return Err(Failure::new(Exit::Usage, format!("mount option 'without': {unknown}"))),
        },
        "writes" => match value {
            Some("back") => options.write_back = true,
            Some("through") => options.write_back = false,
            _ => return Err(invalid_option(key, "is back or through", "writes=through")),
        },
        // As `mount -t fuse.plyfs` passes it on.
        "subtype" if value == Some("plyfs") => {}
        "subtype" => return Err(invalid_option(key, "can only be plyfs", "subtype=plyfs, or leave it out")),
        // The mounting user, as mount(8) records it.
        "user" if value.is_some() => {
            flags::apply(&mut options.flags, key);
        }
        _ if value.is_some() && names().any(|name| name == key) => {
            return Err(invalid_option(key, "takes no value", key));
        }
        "remount" => {}
        "over" => options.over = true,
        "allow_other" => options.allow_other = Some(true),
        "noallow_other" => options.allow_other = Some(false),
        "default_permissions" => options.default_permissions = true,
        "passthrough" => options.passthrough = Some(true),
        "nopassthrough" => options.passthrough = Some(false),
        _ if IGNORED_OPTIONS.contains(&key) => {}
        _ => return Ok(flags::apply(&mut options.flags, key)),
    }
    Ok(true)
}

/// Returns the path of a log file in absolute form: a server in the background has another working directory.
///
/// # Errors
/// Fails if the path is empty, or if the current directory cannot be determined.
pub(crate) fn log_file_path(path: &Path) -> Outcome<PathBuf> {
    std::path::absolute(path).map_err(|error| {
        Failure::new(Exit::Usage, format!("invalid name of the log file: {error}; give the path of a file"))
    })
}

/// Splits at commas; a comma in double quotes or after a backslash belongs to its word.
pub fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(characters.next())),
            ',' if !quoted => words.push(String::new()),
            _ => words.last_mut().into_iter().for_each(|word| word.push(character)),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns whether the option is only for other programs, whatever its value.
fn is_for_other_programs(key: &str) -> bool {
    key == "comment" || key.starts_with("x-") || key.starts_with("X-")
}

fn timeout(key: &str, value: Option<&str>) -> Outcome<Duration> {
    value
        .and_then(|value| value.parse().ok())
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| invalid_option(key, "needs a number of seconds", &format!("{key}=1.5")))
}

fn invalid_option(key: &str, what: &str, remedy: &str) -> Failure {
    Failure::new(Exit::Usage, format!("mount option '{key}' {what}; write {remedy}"))
}

/// Returns the names of all options except those that are only for other programs.
fn names() -> impl Iterator<Item = &'static str> {
    PLYFS_OPTIONS.into_iter().chain(flags::names()).chain(IGNORED_OPTIONS).chain(["remount"])
}

fn unknown(key: &str) -> Failure {
    let remedy = match (key, suggest::nearest(key, names())) {
        ("bind" | "rbind" | "move" | "loop", _) => "leave it to mount(8), without -t plyfs".to_owned(),
        ("uid" | "gid" | "umask" | "fmask" | "dmask" | "mode", _) => {
            "owners and permissions are changed by layers; to list them: plyfs layers".to_owned()
        }
        (_, Some(meant)) => format!("did you mean '{meant}'?"),
        (_, None) => format!("valid are the common options of mount(8), and {}", suggest::list(PLYFS_OPTIONS)),
    };
    Failure::new(Exit::Usage, format!("unknown mount option '{key}'; {remedy}"))
}

#[cfg(test)]
mod tests;
