//! The control socket of a running mount: one JSON object a line, a request and its answer.
//!
//! Each mount has one socket, named after its process, in the [`crate::runtime_directory`]. Only the user who mounted
//! and root may connect: the directory and the socket let nobody else in, and the server asks the kernel who called.

pub mod client;
pub mod server;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What can be asked of a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Request {
    /// What the mount is and how it does.
    Status,
    /// What it has done, and how fast.
    Statistics,
    /// The log level; with a value, it is set first.
    LogLevel {
        /// The new level.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
    },
    /// Everything written so far is to reach storage.
    Sync,
    /// The mount has got these flags, as mount options; everything written so far is to reach storage.
    FlagsChanged {
        /// All that differ from the defaults.
        options: Vec<String>,
    },
    /// A command to a member of the stack.
    Control {
        /// The member's kind.
        target: String,
        /// The command's name.
        name: String,
        /// Its arguments.
        #[serde(default)]
        arguments: Vec<(String, String)>,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To `status`.
    Status(Box<Report>),
    /// To `statistics`.
    Statistics(Box<Statistics>),
    /// To `log-level` and `control`; empty to `sync` and `flags-changed`.
    Text(String),
    /// The request failed, and why.
    Error(String),
}

/// What a mount is and how it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Where it is mounted.
    pub mount_point: String,
    /// The stack, as an expression.
    pub stack: String,
    /// The branches of its union as they are now, those that are missing included.
    pub branches: Vec<String>,
    /// The server's process.
    pub pid: u32,
    /// The user whose process it is.
    pub uid: u32,
    /// The server's version.
    pub version: String,
    /// For how long it has been serving, in seconds.
    pub uptime_seconds: u64,
    /// The mount options.
    pub options: Vec<String>,
    /// How requests come from the kernel, and why so.
    #[serde(default)]
    pub transport: String,
    /// The log level.
    pub log_level: String,
    /// How many requests were answered.
    pub requests: u64,
    /// The same by operation, those that occurred.
    pub requests_by_operation: BTreeMap<String, u64>,
    /// How many objects the kernel holds.
    pub objects: u64,
    /// Resident memory of the server, in bytes.
    pub memory_bytes: u64,
}

/// What a mount has done since it was made, and how fast.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// For how long it has been serving, in seconds.
    pub uptime_seconds: f64,
    /// How many threads serve requests.
    pub workers: usize,
    /// The operations that occurred.
    pub operations: BTreeMap<String, Operation>,
    /// The parts of the stack, and what each took of the requests that were watched, as steps. A server of an older version
    /// does not tell.
    #[serde(default)]
    pub parts: BTreeMap<String, Steps>,
}

/// Durations in nanoseconds, and how many requests had each.
pub type Steps = Vec<(u64, u64)>;

/// The requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// How many failed.
    pub failures: u64,
    /// How long requests took in the server, failed ones included.
    pub times: Steps,
}

/// The longest line that either side reads.
const LINE_MAX: usize = 4 << 20;

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

fn send(stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut stream = stream;
    stream.write_all(&line)
}

/// Reads one line, which has to be there whole by the deadline; `None` at the end of the stream. Each side waits for the other's
/// line before it writes its next, so that nothing of a later line can be read and lost here.
fn receive<T: DeserializeOwned>(mut stream: &UnixStream, deadline: Instant) -> io::Result<Option<T>> {
    let (mut line, mut part) = (Vec::new(), [0; 8192]);
    while line.last() != Some(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || line.len() > LINE_MAX {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) if line.is_empty() => return Ok(None),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(length) => line.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
