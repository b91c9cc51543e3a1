//! The control socket of a running mount: one JSON object a line, a request and its answer. A command to a member of the stack
//! may take long: who [follows](Request::Control) it is told how far it is until the answer comes, which may be in parts.
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
        /// Whether whoever asks waits for as long as progress comes, and puts the parts of a long answer together. Servers of
        /// older versions do neither.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        follows: bool,
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
    /// The beginning of a long text, or what comes next of it; the end is a `text`.
    Part(String),
    /// The answer is still to come; so many objects have been dealt with.
    Progress(u64),
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

/// Bytes from which on a text is sent in parts: with every character escaped, one fits into a line.
const PART_BYTES: usize = 512 << 10;

/// How often whoever follows a command is told how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

fn send(stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut stream = stream;
    stream.write_all(&line)
}

/// The lines that the other side sends.
struct Lines<'a> {
    stream: &'a UnixStream,
    /// What has been read of the lines that are still to be given.
    read: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn of(stream: &'a UnixStream) -> Self {
        Self { stream, read: Vec::new() }
    }

    /// Reads one line, which has to be there whole by the deadline; `None` at the end of the stream.
    fn receive<T: DeserializeOwned>(&mut self, deadline: Instant) -> io::Result<Option<T>> {
        let (mut stream, mut part, mut searched) = (self.stream, [0; 8192], 0);
        loop {
            if let Some(end) = self.read[searched..].iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=searched + end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            searched = self.read.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.read.len() > LINE_MAX {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            stream.set_read_timeout(Some(left))?;
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
    use super::client::follow;
    use super::server::{Answerer, converse};
    use super::*;

    /// Works for a while, and answers with a text of so many bytes.
    struct Busy {
        work: Duration,
        length: usize,
    }

    impl Answerer for Busy {
        fn answer(&self, _: Request) -> Answer {
            let begin = Instant::now();
            while begin.elapsed() < self.work {
                vnode::progress::object_done();
                std::thread::sleep(Duration::from_millis(1));
            }
            Answer::Text("ä".repeat(self.length / 2))
        }
    }

    fn request(follows: bool) -> Request {
        Request::Control { target: String::new(), name: String::new(), arguments: Vec::new(), follows }
    }

    /// What comes of a request to a server that is busy with it, for whoever waits so long for a line; and what progress was
    /// told.
    fn answer(busy: Busy, follows: bool, patience: Duration) -> (io::Result<Answer>, Vec<u64>) {
        let (own, other) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || converse(&other, &busy));
            let mut told = Vec::new();
            let answer = follow(&own, &request(follows), patience, &mut |objects| told.push(objects));
            drop(own);
            (answer, told)
        })
    }

    #[test]
    fn work_that_takes_longer_than_anybody_waits_is_followed_to_its_end() {
        let patience = Duration::from_millis(1_500);
        let busy = || Busy { work: 2 * patience, length: 2 };
        let (followed, told) = answer(busy(), true, patience);
        assert_eq!(followed.unwrap(), Answer::Text("ä".to_owned()));
        assert!(told.len() >= 2 && told.is_sorted() && told.last() > told.first(), "{told:?}");
        let (given_up, told) = answer(busy(), false, patience);
        assert!(given_up.is_err() && told.is_empty());
    }

    #[test]
    fn texts_that_are_longer_than_a_line_come_in_parts() {
        for length in [2, PART_BYTES, PART_BYTES + 2, 3 * LINE_MAX] {
            let busy = Busy { work: Duration::ZERO, length };
            let (whole, _) = answer(busy, true, PATIENCE);
            assert!(whole.unwrap() == Answer::Text("ä".repeat(length / 2)), "{length} bytes");
        }
    }

    #[test]
    fn lines_that_come_together_are_read_one_by_one() {
        let (own, other) = UnixStream::pair().unwrap();
        let deadline = Instant::now() + PATIENCE;
        (&other).write_all(b"1\n2\n3").unwrap();
        let mut lines = Lines::of(&own);
        assert_eq!(lines.receive::<u32>(deadline).unwrap(), Some(1));
        assert_eq!(lines.receive::<u32>(deadline).unwrap(), Some(2));
        (&other).write_all(b"4\n").unwrap();
        assert_eq!(lines.receive::<u32>(deadline).unwrap(), Some(34));
        drop(other);
        assert_eq!(lines.receive::<u32>(deadline).unwrap(), None);
    }
}
