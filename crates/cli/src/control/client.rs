//! The client end of the control sockets: finding mounts and querying them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_socket, socket_with};
use rustix::process::{Pid, geteuid};
use serde_json::Value;

use super::{Answer, Lines, PATIENCE, Report, Request, Statistics, send};
use crate::exit::{Exit, Failure, Outcome};
use crate::mount_table;
use crate::runtime_directory::{self, Directory};

/// Total time that the servers of another user have to answer.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(2);

/// A mount whose server answered.
pub(crate) struct Mount {
    stream: UnixStream,
    /// The server's own report, except for its pid and uid, which come from the kernel.
    pub report: Report,
}

/// Returns every mount that the caller may query and whose server answers. A server's claim to serve a mount point is accepted
/// unless the kernel reports that the mount there is another user's.
pub(crate) fn mounts() -> Vec<Mount> {
    mounts_on(None)
}

/// As [`mounts`], but limited to one mount point, in the form in which the kernel lists it, if one is given.
pub(crate) fn mounts_on(wanted: Option<&Path>) -> Vec<Mount> {
    let table = mount_table::read();
    let listed = table.iter().filter(|entry| Some(&*entry.mount_point) == wanted).count();
    let is_enough = |report: &Report| listed == 1 && wanted == Some(Path::new(&report.mount_point));
    let mut mounts = answering(runtime_directory::all(), &is_enough);
    mounts.retain(|mount| {
        let mount_point = Path::new(&mount.report.mount_point);
        if wanted.is_some_and(|wanted| wanted != mount_point) {
            return false;
        }
        let entry = table.iter().rfind(|entry| entry.mount_point == mount_point);
        entry.is_none_or(|entry| entry.user == Some(mount.report.uid))
    });
    mounts.sort_by(|a, b| a.report.mount_point.cmp(&b.report.mount_point));
    mounts
}

/// Returns the mount on this mount point, a path in the form in which the kernel lists it; of several stacked mounts, the most
/// recent. Queries only servers of the user who owns the mount according to the kernel.
pub(crate) fn find(mount_point: &Path) -> Option<Mount> {
    let wanted = mount_point.to_string_lossy();
    let mut on_it = mount_table::read();
    on_it.retain(|entry| entry.mount_point == mount_point);
    let user = on_it.last().and_then(|entry| entry.user).unwrap_or_else(|| geteuid().as_raw());
    let mut directories = runtime_directory::all();
    directories.retain(|directory| directory.owner() == user);
    let is_it = |report: &Report| report.mount_point == wanted;
    // If it is the only mount there, its answer suffices and hanging servers are not waited for.
    let found = answering(directories, &|report| on_it.len() < 2 && is_it(report));
    found.into_iter().filter(|mount| is_it(&mount.report)).min_by_key(|mount| mount.report.uptime_seconds)
}

/// Returns the mounts whose sockets are in these directories, at least until one satisfies `is_enough`. Queries the servers of
/// other users first, all users concurrently, each user with a fixed time limit: a user whose servers do not answer does not
/// delay the others.
fn answering(directories: Vec<Directory>, is_enough: &(dyn Fn(&Report) -> bool + Sync)) -> Vec<Mount> {
    let (own, others): (Vec<_>, Vec<_>) = directories.into_iter().partition(Directory::is_own);
    let all = |directory: &Directory| answers(directory, Instant::now() + PATIENCE_WITH_OTHERS, is_enough);
    let mut mounts = thread::scope(|scope| {
        // Without a thread to spare, the directories are queried one after the other.
        let all = &all;
        let ask = |directory| {
            let asked = thread::Builder::new().spawn_scoped(scope, move || all(directory));
            asked.map_err(|_| directory)
        };
        let asked: Vec<_> = others.iter().map(ask).collect();
        let answered = |asked| match asked {
            Ok(asked) => ScopedJoinHandle::join(asked).unwrap_or_default(),
            Err(directory) => all(directory),
        };
        asked.into_iter().flat_map(answered).collect::<Vec<_>>()
    });
    mounts.extend(own.iter().flat_map(|directory| answers(directory, Instant::now() + PATIENCE, is_enough)));
    mounts
}

/// Returns the mounts with a socket in the directory whose servers answer by the deadline. Queries all of them before the first
/// has answered, so that a hanging server does not delay the others' answers.
fn answers(directory: &Directory, deadline: Instant, is_enough: &dyn Fn(&Report) -> bool) -> Vec<Mount> {
    let mut asked: Vec<Asked> = sockets(directory).into_iter().filter_map(|name| Asked::of(directory, name)).collect();
    let mut mounts: Vec<Mount> = Vec::new();
    while !asked.is_empty() && !mounts.iter().any(|mount| is_enough(&mount.report)) {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut polled: Vec<_> = asked.iter().map(|asked| PollFd::new(&asked.stream, PollFlags::IN)).collect();
        match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
            Err(Errno::INTR) => continue,
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let mut has_answered = polled.iter().map(|polled| !polled.revents().is_empty()).collect::<Vec<_>>().into_iter();
        let (answered, waiting) = asked.into_iter().partition(|_| has_answered.next() == Some(true));
        let answered: Vec<Asked> = answered;
        mounts.extend(answered.into_iter().filter_map(|asked| asked.answer(deadline)));
        asked = waiting;
    }
    mounts
}

/// A server that has been queried for its status and has not answered yet.
struct Asked {
    stream: UnixStream,
    /// Its pid and uid as reported by the kernel.
    pid: u32,
    uid: u32,
}

impl Asked {
    /// Connects and sends the query. A socket is trusted only if its server runs as the owner of the socket's directory.
    fn of(directory: &Directory, name: OsString) -> Option<Self> {
        let stream = connection(directory, name).ok()?;
        let peer = getsockopt(&stream, PeerCredentials).ok().filter(|peer| peer.uid() == directory.owner())?;
        stream.set_write_timeout(Some(PATIENCE_WITH_OTHERS)).ok()?;
        send(&stream, &Request::Status).ok()?;
        Some(Self { stream, pid: peer.pid().unsigned_abs(), uid: peer.uid() })
    }

    /// Reads the answer, whose beginning has arrived.
    fn answer(self, deadline: Instant) -> Option<Mount> {
        let Self { stream, pid, uid } = self;
        match receive_answer(&mut Lines::of(&stream), deadline) {
            Ok(Answer::Status(report)) => Some(Mount { report: Report { pid, uid, ..*report }, stream }),
            _ => None,
        }
    }
}

/// Removes the sockets of servers that are gone.
pub(crate) fn remove_stale(directory: &Directory) {
    sockets(directory).into_iter().for_each(|name| drop(connection(directory, name)));
}

impl Mount {
    /// Returns the server's pid; `None` if the server is in another pid namespace.
    pub(crate) fn process(&self) -> Option<Pid> {
        i32::try_from(self.report.pid).ok().and_then(Pid::from_raw)
    }

    /// Sends a request that is answered with text.
    pub(crate) fn text(&self, request: &Request) -> Outcome<String> {
        self.text_with_progress(request, &mut |_| {})
    }

    /// As [`Mount::text`], for a request that may be [followed](Request::Control): `progress` receives the number of objects
    /// processed so far.
    pub(crate) fn text_with_progress(&self, request: &Request, progress: &mut dyn FnMut(u64)) -> Outcome<String> {
        match self.answer(request, progress)? {
            Answer::Text(text) => Ok(text),
            _ => Err(self.another_question()),
        }
    }

    /// Requests the statistics.
    pub(crate) fn statistics(&self) -> Outcome<Statistics> {
        let remedy = "its server may be of an older version: mount it again";
        let older = |failure: Failure| match failure.exit {
            Exit::Failure => Failure::new(failure.exit, format!("{failure}; {remedy}")),
            _ => failure,
        };
        match self.answer(&Request::Statistics, &mut |_| {}).map_err(older)? {
            Answer::Statistics(statistics) => Ok(*statistics),
            _ => Err(self.another_question()),
        }
    }

    /// Sends a request and returns the answer; an error answer becomes a failure.
    fn answer(&self, request: &Request, progress: &mut dyn FnMut(u64)) -> Outcome<Answer> {
        let name = &self.report.mount_point;
        match follow(&self.stream, request, PATIENCE, progress) {
            Ok(Answer::Error(message)) => Err(Failure::of_lines(Exit::Failure, &format!("{name}: {message}"))),
            Ok(answer) => Ok(answer),
            Err(error) => Err(no_answer(name, error)),
        }
    }

    fn another_question(&self) -> Failure {
        no_answer(&self.report.mount_point, "it answers another question")
    }
}

fn no_answer(mount_point: &str, error: impl std::fmt::Display) -> Failure {
    let remedy = "unmount it with plyfs umount";
    Failure::new(Exit::NoAnswer, format!("the server of {mount_point} does not answer: {error}; {remedy}"))
}

/// Returns the names of the sockets in the directory.
fn sockets(directory: &Directory) -> Vec<OsString> {
    let names = fs::read_dir(directory.place()).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "sock")).collect()
}

/// Connects to a socket if that is possible at once: waiting for a server that does not accept could take forever. Removes a
/// socket of the caller's own that nobody listens on any more.
fn connection(directory: &Directory, name: OsString) -> io::Result<UnixStream> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(directory, &name, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::Socket {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let connected = connect_socket(&socket, &SocketAddrUnix::new(format!("/proc/self/fd/{}", found.as_raw_fd()))?);
    if connected == Err(Errno::CONNREFUSED) && directory.is_own() {
        let _ = unlinkat(directory, &name, AtFlags::empty());
    }
    connected?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Sends the request and waits for the answer, as long as the time between two lines does not exceed `patience`.
pub(crate) fn follow(
    stream: &UnixStream,
    request: &Request,
    patience: Duration,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Answer> {
    stream.set_write_timeout(Some(patience))?;
    send(stream, request)?;
    let (mut lines, mut text) = (Lines::of(stream), String::new());
    loop {
        match receive_answer(&mut lines, Instant::now() + patience)? {
            Answer::Progress(objects) => progress(objects),
            Answer::Part(part) => text.push_str(&part),
            Answer::Text(end) if !text.is_empty() => return Ok(Answer::Text(text + &end)),
            answer => return Ok(answer),
        }
    }
}

fn receive_answer(lines: &mut Lines<'_>, deadline: Instant) -> io::Result<Answer> {
    let mut answer: Value = lines.receive(deadline)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    let has_lines = answer.get("text").or(answer.get("part")).is_some();
    clean(&mut answer, has_lines);
    Ok(serde_json::from_value(answer)?)
}

/// Replaces everything in another user's report that could control the terminal or pass for a line of our own.
fn clean(value: &mut Value, has_lines: bool) {
    let replaced = |character: char| match character {
        '\n' | '\t' if has_lines => character,
        _ if character.is_control() => '?',
        _ => character,
    };
    let text = |text: &str| text.chars().map(replaced).collect::<String>();
    match value {
        Value::String(string) => *string = text(string),
        Value::Array(values) => values.iter_mut().for_each(|value| clean(value, has_lines)),
        Value::Object(members) => {
            let cleaned = std::mem::take(members).into_iter().map(|(key, mut value)| {
                clean(&mut value, has_lines);
                (text(&key), value)
            });
            *members = cleaned.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_servers_say_cannot_speak_to_a_terminal() {
        let mut answer =
            json!({"status": {"version": "\u{1b}[31m1\n/etc", "requests": {"a\u{7}b": 1}, "options": ["x\ny"]}});
        clean(&mut answer, false);
        assert_eq!(answer, json!({"status": {"version": "?[31m1?/etc", "requests": {"a?b": 1}, "options": ["x?y"]}}));
        let mut answer = json!({"text": "one\ntwo\u{9b}"});
        clean(&mut answer, true);
        assert_eq!(answer, json!({"text": "one\ntwo?"}));
    }
}
