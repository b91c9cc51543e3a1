//! Logging: the destination of lines, and a level that can change while the mount runs.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// The destination of log lines.
#[derive(Clone, Debug)]
pub(crate) enum Destination {
    /// Standard error.
    StandardError,
    /// A file, opened for appending; created readable only by its owner, since it may contain the names of other users' files.
    File(PathBuf),
    /// The system log.
    Syslog,
}

/// The level at which a mount logs by default.
pub(crate) const DEFAULT_LEVEL: &str = "info";

/// Prefix of the names of the compiler's modules.
const COMPILER_TARGET: &str = "cranelift";

/// Crates of Plyfs, as levels name them: without the prefix of their packages.
const CRATES: [&str; 7] = ["bases", "cli", "fist", "frontends", "layers", "stack", "vnode"];

/// Prefix of the names of the crates in the targets of log lines.
const CRATE_PREFIX: &str = "plyfs_";

/// The current log level, and the handle that changes it.
struct ActiveLog {
    level: Mutex<String>,
    handle: reload::Handle<EnvFilter, Registry>,
}

static ACTIVE_LOG: OnceLock<ActiveLog> = OnceLock::new();

/// Starts logging. Must be called once, before threads are started.
pub(crate) fn start(level: &str, destination: &Destination) -> Outcome {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    let registry = tracing_subscriber::registry().with(filter);
    let started = match destination {
        Destination::StandardError => {
            registry.with(fmt::layer().with_ansi(output::may_colour(&io::stderr())).with_writer(io::stderr)).try_init()
        }
        Destination::File(path) => {
            registry.with(fmt::layer().with_ansi(false).with_writer(Mutex::new(open(path)?))).try_init()
        }
        Destination::Syslog => registry
            .with(fmt::layer().with_ansi(false).without_time().with_level(false).with_writer(Syslog::new()))
            .try_init(),
    };
    started
        .map_err(|error| Failure::new(Exit::Failure, format!("cannot start logging: {error}; start one log only")))?;
    let _ = ACTIVE_LOG.set(ActiveLog { level: Mutex::new(level.to_owned()), handle });
    Ok(())
}

/// Returns the current level, as it was set.
pub(crate) fn level() -> String {
    ACTIVE_LOG.get().map_or_else(|| "off".to_owned(), |current| lock(&current.level).clone())
}

/// Changes the level.
pub(crate) fn set_level(level: &str) -> Outcome {
    let filter = filter(level)?;
    let Some(current) = ACTIVE_LOG.get() else {
        return Err(Failure::new(Exit::Failure, "logging is not active in this process; unmount, and mount again"));
    };
    let mut shown = lock(&current.level);
    current.handle.reload(filter).map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot change the log level: {error}; restart the mount"))
    })?;
    *shown = level.to_owned();
    Ok(())
}

/// Checks a level without setting it.
pub(crate) fn check(level: &str) -> Outcome {
    filter(level).map(drop)
}

/// Returns the level with a trace line for each operation added.
pub(crate) fn with_trace(level: &str) -> String {
    format!("{level},{}=trace", crate::front_end::TRACE_TARGET)
}

fn filter(level: &str) -> Outcome<EnvFilter> {
    // An unknown word on its own would be taken for a module name.
    let words = ["off", "error", "warn", "info", "debug", "trace"];
    let is_valid =
        |part: &str| part.contains('=') || part.contains("::") || words.contains(&part.to_lowercase().as_str());
    let invalid = || {
        let list = stack::suggest::list(words);
        Failure::new(
            Exit::Usage,
            format!("'{level}' is not a log level; valid are {list}, and lists such as info,frontends=debug"),
        )
    };
    if level.is_empty() || !level.split(',').all(is_valid) {
        return Err(invalid());
    }
    // The compiler logs line by line what it generates; a failure to generate code is reported by its caller.
    let names_compiler = level.contains(COMPILER_TARGET);
    let named = with_crate_prefixes(level);
    let all = if names_compiler { named } else { format!("{COMPILER_TARGET}=off,{named}") };
    EnvFilter::builder().parse(all).map_err(|_| invalid())
}

/// Returns the level with the targets that are crates of Plyfs as log lines have them.
fn with_crate_prefixes(level: &str) -> String {
    let with_prefix = |part: &str| {
        let name = part.split(['=', ':']).next().unwrap_or_default();
        if CRATES.contains(&name) { format!("{CRATE_PREFIX}{part}") } else { part.to_owned() }
    };
    level.split(',').map(with_prefix).collect::<Vec<_>>().join(",")
}

fn open(path: &Path) -> Outcome<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(|error| {
        Failure::new(
            Exit::Failure,
            format!("cannot open the log file {}: {error}; give a writable file", path.display()),
        )
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A writer to the system log over its socket, in the format of syslog(3). Without a reachable log, lines are lost but requests
/// are never blocked.
struct Syslog {
    socket: Option<UnixDatagram>,
}

/// A log line being written.
struct SyslogLine<'a> {
    socket: Option<&'a UnixDatagram>,
    severity: u8,
    text: Vec<u8>,
}

impl Syslog {
    const PATH: &'static str = "/dev/log";
    const FACILITY_DAEMON: u8 = 3;

    fn new() -> Self {
        let socket = UnixDatagram::unbound().ok().filter(|socket| socket.set_nonblocking(true).is_ok());
        Syslog { socket }
    }

    fn line(&self, severity: u8) -> SyslogLine<'_> {
        SyslogLine { socket: self.socket.as_ref(), severity, text: Vec::new() }
    }
}

impl<'a> MakeWriter<'a> for Syslog {
    type Writer = SyslogLine<'a>;

    fn make_writer(&'a self) -> SyslogLine<'a> {
        self.line(6)
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> SyslogLine<'a> {
        self.line(match *metadata.level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        })
    }
}

impl Write for SyslogLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SyslogLine<'_> {
    fn drop(&mut self) {
        let text = self.text.trim_ascii();
        if let Some(socket) = self.socket.filter(|_| !text.is_empty()) {
            let priority = Syslog::FACILITY_DAEMON << 3 | self.severity;
            let mut message = format!("<{priority}>plyfs[{}]: ", std::process::id()).into_bytes();
            message.extend_from_slice(text);
            let _ = socket.send_to(&message, Syslog::PATH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_names_or_lists() {
        for level in ["off", "info", "INFO", "info,frontends=debug", "frontends::fuse=trace"] {
            assert!(check(level).is_ok(), "{level}");
        }
        assert!(check(&with_trace("info")).is_ok());
        for level in ["", "loud", "info,loud", "frontends=loud", "info,"] {
            assert_eq!(check(level).unwrap_err().exit, Exit::Usage, "{level}");
        }
    }

    #[test]
    fn levels_name_crates_without_their_prefix() {
        let level = "info,frontends=debug,layers::union=trace,plyfs::request=trace,cranelift_jit=warn";
        let expected = "info,plyfs_frontends=debug,plyfs_layers::union=trace,plyfs::request=trace,cranelift_jit=warn";
        assert_eq!(with_crate_prefixes(level), expected);
        // The names that the compiler gives to targets.
        for target in [std::any::type_name::<vnode::Caller>(), std::any::type_name::<stack::BuildError>()] {
            let name = target.strip_prefix(CRATE_PREFIX).and_then(|target| target.split(':').next());
            assert!(name.is_some_and(|name| CRATES.contains(&name)), "{target}");
        }
    }
}
