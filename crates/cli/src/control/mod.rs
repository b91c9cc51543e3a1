//! The control socket of a running mount: requests and answers, one JSON object per line. A command to a member of the stack
//! may take long: a client that [follows](Request::Control) it receives progress reports until the answer arrives, which may be
//! in parts.
//!
//! Each mount has one socket, named after its process, in the [`crate::runtime_directory`]. Only the mounting user and root may
//! connect: the modes of the directory and the socket exclude everybody else, and the server asks the kernel for the peer's
//! credentials.

pub(crate) mod client;
pub(crate) mod server;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A request to a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Query the identity and state of the mount.
    Status,
    /// Query the statistics: counts and latencies of operations.
    Statistics,
    /// Query the log level; with a value, set it first.
    LogLevel {
        /// The new level.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
    },
    /// Flush everything written so far to storage.
    Sync,
    /// Report that the mount has new flags, as mount options; everything written so far is flushed to storage.
    FlagsChanged {
        /// All flags that differ from the defaults.
        options: Vec<String>,
    },
    /// Send a command to a member of the stack.
    Control {
        /// The member's kind.
        target: String,
        /// The command's name.
        name: String,
        /// Its arguments.
        #[serde(default)]
        arguments: Vec<(String, String)>,
        /// The client waits for as long as progress reports arrive, and joins the parts of a long answer. Servers of older
        /// versions do neither.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        follows: bool,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Response {
    /// To `status`.
    Status(Box<MountReport>),
    /// To `statistics`.
    Statistics(Box<StatisticsReport>),
    /// To `log-level` and `control`; empty to `sync` and `flags-changed`.
    Text(String),
    /// A part of a long text, other than the last; the last is a `text`.
    Part(String),
    /// The number of objects processed so far; the answer is still to come.
    Progress(u64),
    /// The request failed, for this reason.
    Error(String),
}

/// The identity and state of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountReport {
    /// Path of the mount point, as the kernel has it: to be escaped where it is printed.
    pub mount_point: String,
    /// The stack, as a stack expression.
    pub stack: String,
    /// The current branches of its fan-out layer, including missing ones.
    pub branches: Vec<String>,
    /// Pid of the server.
    pub pid: u32,
    /// Uid of the server.
    pub uid: u32,
    /// The server's version.
    pub version: String,
    /// Time since serving began, in seconds.
    pub uptime_seconds: u64,
    /// The mount options.
    pub options: Vec<String>,
    /// The transport of requests from the kernel, and the reason for it.
    #[serde(default)]
    pub transport: String,
    /// The log level.
    pub log_level: String,
    /// Number of requests answered.
    pub requests: u64,
    /// Number of requests answered, by operation, for the operations that occurred.
    pub requests_by_operation: BTreeMap<String, u64>,
    /// Number of objects that the kernel holds references to.
    pub objects: u64,
    /// Resident memory of the server, in bytes.
    pub memory_bytes: u64,
}

/// The counts and latencies of a mount's operations since it was mounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatisticsReport {
    /// Time since serving began, in seconds.
    pub uptime_seconds: f64,
    /// Number of threads that serve requests.
    pub workers: usize,
    /// The operations that occurred.
    pub operations: BTreeMap<String, OperationSummary>,
    /// The parts of the stack, and the time that each took of the sampled requests, as histogram steps. Absent from servers of
    /// older versions.
    #[serde(default)]
    pub parts: BTreeMap<String, HistogramSteps>,
}

/// Durations in nanoseconds, each with the number of requests that took it.
pub(crate) type HistogramSteps = Vec<(u64, u64)>;

/// The requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OperationSummary {
    /// Number of requests that failed.
    pub failures: u64,
    /// Time that requests took in the server, including failed ones.
    pub times: HistogramSteps,
}

/// Maximum length of a line that either side reads, in bytes.
const MAX_LINE_BYTES: usize = 4 << 20;

/// Length in bytes from which a text is sent in parts; a part fits into a line even with every character escaped.
const MAX_PART_BYTES: usize = 512 << 10;

/// Interval between two progress reports to a client that follows a command.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Time that either side waits for the other.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

fn send(stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut stream = stream;
    stream.write_all(&line)
}

/// The lines received from the other side.
struct JsonLines<'a> {
    stream: &'a UnixStream,
    /// Bytes received of lines that have not been returned yet.
    read: Vec<u8>,
}

impl<'a> JsonLines<'a> {
    fn of(stream: &'a UnixStream) -> Self {
        Self { stream, read: Vec::new() }
    }

    /// Reads one line, which must be complete by the deadline; `None` at the end of the stream.
    fn receive<T: DeserializeOwned>(&mut self, deadline: Instant) -> io::Result<Option<T>> {
        let (mut stream, mut part, mut searched) = (self.stream, [0; 8192], 0);
        loop {
            if let Some(end) = self.read[searched..].iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=searched + end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            searched = self.read.len();
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() || self.read.len() > MAX_LINE_BYTES {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            stream.set_read_timeout(Some(remaining))?;
            match stream.read(&mut part) {
                Ok(0) if self.read.is_empty() => return Ok(None),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(length) => self.read.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::client::request_with_progress;
    use super::server::{RequestHandler, serve_connection};
    use super::*;

    /// Works for a while, and answers with a text of this many bytes.
    struct SlowHandler {
        duration: Duration,
        length: usize,
    }

    impl RequestHandler for SlowHandler {
        fn handle(&self, _: Request) -> Response {
            let begin = Instant::now();
            while begin.elapsed() < self.duration {
                vnode::progress::object_done();
                std::thread::sleep(Duration::from_millis(1));
            }
            Response::Text("ä".repeat(self.length / 2))
        }
    }

    fn request(follows: bool) -> Request {
        Request::Control { target: String::new(), name: String::new(), arguments: Vec::new(), follows }
    }

    /// Returns the result of a request to a busy server, for a client that waits this long for each line, and the progress that
    /// was reported.
    fn response_to(handler: SlowHandler, follows: bool, timeout: Duration) -> (io::Result<Response>, Vec<u64>) {
        let (own, other) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || serve_connection(&other, &handler));
            let mut reported = Vec::new();
            let response =
                request_with_progress(&own, &request(follows), timeout, &mut |objects| reported.push(objects));
            drop(own);
            (response, reported)
        })
    }

    #[test]
    fn long_command_is_followed_to_its_end() {
        let timeout = Duration::from_millis(1_500);
        let handler = || SlowHandler { duration: 2 * timeout, length: 2 };
        let (followed, reported) = response_to(handler(), true, timeout);
        assert_eq!(followed.unwrap(), Response::Text("ä".to_owned()));
        assert!(reported.len() >= 2 && reported.is_sorted() && reported.last() > reported.first(), "{reported:?}");
        let (timed_out, reported) = response_to(handler(), false, timeout);
        assert!(timed_out.is_err() && reported.is_empty());
    }

    #[test]
    fn long_texts_arrive_in_parts() {
        for length in [2, MAX_PART_BYTES, MAX_PART_BYTES + 2, 3 * MAX_LINE_BYTES] {
            let handler = SlowHandler { duration: Duration::ZERO, length };
            let (complete, _) = response_to(handler, true, RESPONSE_TIMEOUT);
            assert!(complete.unwrap() == Response::Text("ä".repeat(length / 2)), "{length} bytes");
        }
    }

    #[test]
    fn lines_that_arrive_together_are_read_separately() {
        let (own, other) = UnixStream::pair().unwrap();
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        (&other).write_all(b"1\n2\n3").unwrap();
        let mut lines = JsonLines::of(&own);
        assert_eq!(lines.receive::<u32>(deadline).unwrap(), Some(1));
        assert_eq!(lines.receive::<u32>(deadline).unwrap(), Some(2));
        (&other).write_all(b"4\n").unwrap();
        assert_eq!(lines.receive::<u32>(deadline).unwrap(), Some(34));
        drop(other);
        assert_eq!(lines.receive::<u32>(deadline).unwrap(), None);
    }
}
