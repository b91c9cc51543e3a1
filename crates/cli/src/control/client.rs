//! The client end of the control sockets: finding mounts and querying them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use procfs::DescriptorPath;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, minor, openat, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_socket, socket_with};
use rustix::process::{Pid, geteuid};
use serde_json::Value;
use stack::printable::escaped;

use super::{JsonLines, MountReport, RESPONSE_TIMEOUT, Request, Response, StatisticsReport, send};
use crate::exit::{Exit, Failure, Outcome};
use crate::mount_table;
use crate::runtime_directory::{self, RuntimeDirectory};

/// Total time that the servers of another user have to answer.
const OTHER_USERS_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum length of a text in parts, which another server could continue for ever.
const MAX_TEXT_BYTES: usize = 1 << 30;

/// A mount whose server answered.
pub(crate) struct Mount {
    stream: UnixStream,
    /// The server's own report, except for its pid and uid, which come from the kernel.
    pub report: MountReport,
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
    let is_enough = |report: &MountReport| listed == 1 && wanted == Some(Path::new(&report.mount_point));
    let mut mounts = query_directories(runtime_directory::all(), &is_enough);
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
    let mut entries = mount_table::read();
    entries.retain(|entry| entry.mount_point == mount_point);
    let directories = directories_of_owner(entries.last());
    let is_wanted = |report: &MountReport| report.mount_point == wanted;
    // If it is the only mount there, its answer suffices and hanging servers are not waited for.
    let mounts = query_directories(directories, &|report| entries.len() < 2 && is_wanted(report));
    mounts.into_iter().filter(|mount| is_wanted(&mount.report)).min_by_key(|mount| mount.report.uptime_seconds)
}

/// Returns whether a server of the user who owns the mount, perhaps of this mount, accepts connections and does not answer: one
/// that has ended does not accept any.
pub(crate) fn has_silent_server(mount_point: &Path) -> bool {
    const PATIENCE: Duration = Duration::from_millis(500);
    let entry = mount_table::find_at(mount_point);
    let connection = entry.as_ref().map(|entry| minor(entry.device));
    directories_of_owner(entry.as_ref()).iter().any(|directory| {
        let (_, silent) = answers(queries(directory), Instant::now() + PATIENCE, &|_| false);
        silent.iter().any(|server| connection.is_none_or(|connection| server.may_serve(connection)))
    })
}

/// Returns the pid of the server of a mount if that is stopped (SIGSTOP): of several, the one that was started last, since a server
/// stopped after its mount was unmounted still has its former connection open, whose number the kernel gives to the next mount.
pub(crate) fn stopped_server(entry: &mount_table::MountEntry) -> Option<u32> {
    let servers = directories_of_owner(Some(entry)).into_iter().flat_map(|directory| queries(&directory));
    let stopped: Vec<PendingQuery> = servers.filter(PendingQuery::is_stopped).collect();
    let serving = stopped.iter().filter(|server| server.serves(minor(entry.device)));
    serving.max_by_key(|server| server.start_time()).map(|server| server.pid)
}

/// Returns the runtime directories of the user who owns a mount according to the kernel; by default, those of the caller.
fn directories_of_owner(entry: Option<&mount_table::MountEntry>) -> Vec<RuntimeDirectory> {
    let user = entry.and_then(|entry| entry.user).unwrap_or_else(|| geteuid().as_raw());
    let mut directories = runtime_directory::all();
    directories.retain(|directory| directory.owner() == user);
    directories
}

/// Returns the mounts whose sockets are in these directories, at least until one satisfies `is_enough`. Queries the servers of
/// other users first, all users concurrently, each user with a fixed time limit: a user whose servers do not answer does not
/// delay the others.
fn query_directories(
    directories: Vec<RuntimeDirectory>,
    is_enough: &(dyn Fn(&MountReport) -> bool + Sync),
) -> Vec<Mount> {
    let (own, others): (Vec<_>, Vec<_>) = directories.into_iter().partition(RuntimeDirectory::is_own);
    let all =
        |directory: &RuntimeDirectory| query_directory(directory, Instant::now() + OTHER_USERS_TIMEOUT, is_enough);
    let mut mounts = thread::scope(|scope| {
        // Without a thread to spare, the directories are queried one after the other.
        let all = &all;
        let ask = |directory| {
            let pending = thread::Builder::new().spawn_scoped(scope, move || all(directory));
            pending.map_err(|_| directory)
        };
        let pending: Vec<_> = others.iter().map(ask).collect();
        let answered = |pending| match pending {
            Ok(pending) => ScopedJoinHandle::join(pending).unwrap_or_default(),
            Err(directory) => all(directory),
        };
        pending.into_iter().flat_map(answered).collect::<Vec<_>>()
    });
    mounts.extend(
        own.iter().flat_map(|directory| query_directory(directory, Instant::now() + RESPONSE_TIMEOUT, is_enough)),
    );
    mounts
}

/// Returns the mounts with a socket in the directory whose servers answer by the deadline. Queries all of them before the first
/// has answered, so that a hanging server does not delay the others' answers.
fn query_directory(
    directory: &RuntimeDirectory,
    deadline: Instant,
    is_enough: &dyn Fn(&MountReport) -> bool,
) -> Vec<Mount> {
    answers(queries(directory), deadline, is_enough).0
}

/// Queries all servers with a socket in the directory.
fn queries(directory: &RuntimeDirectory) -> Vec<PendingQuery> {
    sockets(directory).into_iter().filter_map(|name| PendingQuery::of(directory, name)).collect()
}

/// Returns the mounts whose servers answer by the deadline, at least until one satisfies `is_enough`, and the servers that have
/// not answered by then; a server that ended instead is in neither. One that is stopped (SIGSTOP) is not waited for.
fn answers(
    queries: Vec<PendingQuery>,
    deadline: Instant,
    is_enough: &dyn Fn(&MountReport) -> bool,
) -> (Vec<Mount>, Vec<PendingQuery>) {
    let (stopped, mut pending): (Vec<_>, Vec<_>) = queries.into_iter().partition(PendingQuery::is_stopped);
    let mut mounts: Vec<Mount> = Vec::new();
    while !pending.is_empty() && !mounts.iter().any(|mount| is_enough(&mount.report)) {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let mut polled: Vec<_> = pending.iter().map(|pending| PollFd::new(&pending.stream, PollFlags::IN)).collect();
        match poll(&mut polled, Timespec::try_from(remaining).ok().as_ref()) {
            Err(Errno::INTR) => continue,
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let mut has_response = polled.iter().map(|polled| !polled.revents().is_empty()).collect::<Vec<_>>().into_iter();
        let (answered, waiting) = pending.into_iter().partition(|_| has_response.next() == Some(true));
        let answered: Vec<PendingQuery> = answered;
        mounts.extend(answered.into_iter().filter_map(|pending| pending.read_response(deadline)));
        pending = waiting;
    }
    pending.extend(stopped);
    (mounts, pending)
}

/// A server that has been queried for its status and has not answered yet.
struct PendingQuery {
    stream: UnixStream,
    /// Its pid and uid as reported by the kernel.
    pid: u32,
    uid: u32,
}

impl PendingQuery {
    /// Connects and sends the query. A socket is trusted only if its server runs as the owner of the socket's directory.
    fn of(directory: &RuntimeDirectory, name: OsString) -> Option<Self> {
        let stream = connection(directory, name).ok()?;
        let peer = getsockopt(&stream, PeerCredentials).ok().filter(|peer| peer.uid() == directory.owner())?;
        stream.set_write_timeout(Some(OTHER_USERS_TIMEOUT)).ok()?;
        send(&stream, &Request::Status).ok()?;
        // The kernel names who began to listen: that process may have ended, and the socket be another's.
        let pid = peer.pid().unsigned_abs();
        let pid = if runs_as(pid, peer.uid()) { pid } else { 0 };
        Some(Self { stream, pid, uid: peer.uid() })
    }

    /// Returns whether the server is stopped (SIGSTOP), or by a debugger, so that it cannot answer.
    fn is_stopped(&self) -> bool {
        self.stat().is_some_and(|stat| matches!(stat.state(), Some(b'T' | b't')))
    }

    /// Returns when the server was started.
    fn start_time(&self) -> Option<u64> {
        self.stat()?.start_time()
    }

    fn stat(&self) -> Option<procfs::Stat> {
        procfs::Process::Numbered(self.pid).stat().ok().flatten()
    }

    /// Returns whether the kernel reports that the server has this FUSE connection open.
    fn serves(&self, connection: u32) -> bool {
        let open = procfs::Process::Numbered(self.pid).fuse_connections();
        matches!(open, Ok(Some(open)) if open.contains(&connection))
    }

    /// Returns whether the server may have this FUSE connection open: `false` if the kernel reports that it has only others.
    fn may_serve(&self, connection: u32) -> bool {
        let open = procfs::Process::Numbered(self.pid).fuse_connections();
        !matches!(open, Ok(Some(open)) if !open.is_empty() && !open.contains(&connection))
    }

    /// Reads the answer, whose beginning has arrived.
    fn read_response(self, deadline: Instant) -> Option<Mount> {
        let Self { stream, pid, uid } = self;
        match receive_response(&mut JsonLines::of(&stream), deadline) {
            Ok(Response::Status(report)) => Some(Mount { report: MountReport { pid, uid, ..*report }, stream }),
            _ => None,
        }
    }
}

/// Returns whether a process runs as this user.
fn runs_as(pid: u32, user: u32) -> bool {
    let status = procfs::Process::Numbered(pid).status();
    matches!(status, Ok(Some(status)) if status.uids().is_some_and(|uids| [uids.real, uids.effective].contains(&user)))
}

/// Removes the sockets of servers that are gone.
pub(crate) fn remove_stale(directory: &RuntimeDirectory) {
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
        match self.exchange(request, progress)? {
            Response::Text(text) => Ok(text),
            _ => Err(self.unexpected_response()),
        }
    }

    /// Requests the statistics.
    pub(crate) fn statistics(&self) -> Outcome<StatisticsReport> {
        let remedy = "if its server is of an older version, unmount, and mount again";
        let older = |failure: Failure| match failure.exit {
            Exit::Failure => Failure::new(failure.exit, format!("{failure}; {remedy}")),
            _ => failure,
        };
        match self.exchange(&Request::Statistics, &mut |_| {}).map_err(older)? {
            Response::Statistics(statistics) => Ok(*statistics),
            _ => Err(self.unexpected_response()),
        }
    }

    /// Sends a request and returns the answer; an error answer becomes a failure.
    fn exchange(&self, request: &Request, progress: &mut dyn FnMut(u64)) -> Outcome<Response> {
        let name = &escaped(&self.report.mount_point);
        match request_with_progress(&self.stream, request, RESPONSE_TIMEOUT, progress) {
            Ok(Response::Error(message)) => Err(Failure::from_lines(Exit::Failure, &format!("{name}: {message}"))),
            Ok(response) => Ok(response),
            Err(error) => Err(no_response(name, error)),
        }
    }

    fn unexpected_response(&self) -> Failure {
        no_response(&self.report.mount_point, "unexpected type of answer")
    }
}

fn no_response(mount_point: &str, error: impl std::fmt::Display) -> Failure {
    let remedy = format!("to unmount: plyfs umount {mount_point}");
    Failure::new(Exit::NoAnswer, format!("the server of {mount_point} does not answer: {error}; {remedy}"))
}

/// Returns the names of the sockets in the directory.
fn sockets(directory: &RuntimeDirectory) -> Vec<OsString> {
    let names =
        fs::read_dir(directory.descriptor_path()).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "sock")).collect()
}

/// Connects to a socket if that is possible at once: waiting for a server that does not accept could take forever. Removes a
/// socket of the caller's own that nobody listens on any more.
fn connection(directory: &RuntimeDirectory, name: OsString) -> io::Result<UnixStream> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket_file = openat(directory, &name, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&socket_file)?.st_mode) != FileType::Socket {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let connected = connect_socket(&socket, &SocketAddrUnix::new(DescriptorPath::new(&socket_file).as_path())?);
    if connected == Err(Errno::CONNREFUSED) && directory.is_own() {
        let _ = unlinkat(directory, &name, AtFlags::empty());
    }
    connected?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Sends the request and waits for the answer, as long as the time between two lines does not exceed `timeout`. Only a request that
/// is followed may have an answer of several lines: another server could go on for ever.
pub(crate) fn request_with_progress(
    stream: &UnixStream,
    request: &Request,
    timeout: Duration,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Response> {
    stream.set_write_timeout(Some(timeout))?;
    send(stream, request)?;
    let (mut lines, mut text) = (JsonLines::of(stream), String::new());
    let is_followed = matches!(request, Request::Control { follows: true, .. });
    loop {
        match receive_response(&mut lines, Instant::now() + timeout)? {
            Response::Progress(_) | Response::Part(_) if !is_followed => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected type of answer"));
            }
            Response::Progress(objects) => progress(objects),
            Response::Part(part) if text.len() + part.len() > MAX_TEXT_BYTES => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
            }
            Response::Part(part) => text.push_str(&part),
            Response::Text(end) if !text.is_empty() => return Ok(Response::Text(text + &end)),
            response => return Ok(response),
        }
    }
}

fn receive_response(lines: &mut JsonLines<'_>, deadline: Instant) -> io::Result<Response> {
    let mut response: Value = lines.receive(deadline)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    let has_lines = response.get("text").or(response.get("part")).is_some();
    // The mount point is compared with those of the kernel.
    let mount_point = response.pointer("/status/mount_point").and_then(Value::as_str).map(str::to_owned);
    sanitize(&mut response, has_lines);
    let mut response: Response = serde_json::from_value(response)?;
    if let (Response::Status(report), Some(mount_point)) = (&mut response, mount_point) {
        report.mount_point = mount_point;
    }
    Ok(response)
}

/// Replaces everything in another user's report that could control the terminal or pass for a line of our own, except in its
/// mount point.
fn sanitize(value: &mut Value, has_lines: bool) {
    let replaced = |character: char| match character {
        '\n' | '\t' if has_lines => character,
        _ if character.is_control() => '?',
        _ => character,
    };
    let text = |text: &str| text.chars().map(replaced).collect::<String>();
    match value {
        Value::String(string) => *string = text(string),
        Value::Array(values) => values.iter_mut().for_each(|value| sanitize(value, has_lines)),
        Value::Object(members) => {
            let cleaned = std::mem::take(members).into_iter().map(|(key, mut value)| {
                sanitize(&mut value, has_lines);
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
    fn a_process_is_taken_for_a_server_only_if_it_runs_as_its_user() {
        let own = geteuid().as_raw();
        assert!(runs_as(std::process::id(), own) && !runs_as(std::process::id(), own + 1));
        assert!(!runs_as(0, own));
    }

    #[test]
    fn control_characters_of_servers_are_replaced() {
        let mut response =
            json!({"status": {"version": "\u{1b}[31m1\n/etc", "requests": {"a\u{7}b": 1}, "options": ["x\ny"]}});
        sanitize(&mut response, false);
        assert_eq!(response, json!({"status": {"version": "?[31m1?/etc", "requests": {"a?b": 1}, "options": ["x?y"]}}));
        let mut response = json!({"text": "one\ntwo\u{9b}"});
        sanitize(&mut response, true);
        assert_eq!(response, json!({"text": "one\ntwo?"}));
    }
}
