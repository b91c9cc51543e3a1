//! The command's end of the control sockets: finding mounts and asking them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;

use super::{Answer, PATIENCE, Report, Request, Statistics, receive, send};
use crate::exit::{Exit, Failure, Outcome};
use crate::runtime_directory;

/// A mount that answered.
pub struct Mount {
    stream: UnixStream,
    /// What it says of itself.
    pub report: Report,
    /// The server's process, as the kernel knows it.
    pub pid: Pid,
}

/// Every mount that the caller may ask and that answers.
pub fn mounts() -> Vec<Mount> {
    let sockets = runtime_directory::all().into_iter().flat_map(|directory| sockets(&directory));
    let mut mounts: Vec<Mount> = sockets.filter_map(|path| connect(&path)).collect();
    mounts.sort_by(|a, b| a.report.mount_point.cmp(&b.report.mount_point));
    mounts
}

/// The mount on this mount point, a path as the kernel lists it. Of several on top of each other the last one made.
pub fn find(mount_point: &Path) -> Option<Mount> {
    let wanted = mount_point.to_string_lossy();
    let found = mounts().into_iter().filter(|mount| mount.report.mount_point == wanted);
    found.min_by_key(|mount| mount.report.uptime_seconds)
}

/// Removes the sockets of servers that are gone.
pub fn remove_stale(directory: &Path) {
    for path in sockets(directory) {
        if is_stale(&UnixStream::connect(&path)) {
            let _ = fs::remove_file(path);
        }
    }
}

impl Mount {
    /// Asks for a text.
    pub fn text(&self, request: &Request) -> Outcome<String> {
        match self.answer(request)? {
            Answer::Text(text) => Ok(text),
            _ => Err(self.another_question()),
        }
    }

    /// Asks what it has done.
    pub fn statistics(&self) -> Outcome<Statistics> {
        let remedy = "its server may be of an older version: mount it again";
        let older = |failure: Failure| match failure.exit {
            Exit::Failure => Failure::new(failure.exit, format!("{failure}; {remedy}")),
            _ => failure,
        };
        match self.answer(&Request::Statistics).map_err(older)? {
            Answer::Statistics(statistics) => Ok(*statistics),
            _ => Err(self.another_question()),
        }
    }

    /// What it answers, unless that it cannot.
    fn answer(&self, request: &Request) -> Outcome<Answer> {
        let name = &self.report.mount_point;
        match ask(&self.stream, request) {
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

fn sockets(directory: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "sock")).collect()
}

/// Connects and asks for the status; cleans up where nobody listens any more.
fn connect(path: &Path) -> Option<Mount> {
    let connection = UnixStream::connect(path);
    if is_stale(&connection) {
        let _ = fs::remove_file(path);
    }
    let stream = connection.ok()?;
    let peer = socket_peercred(&stream).ok()?;
    // A socket is believed only if its server runs as the owner of the directory that it is in.
    let owner = fs::symlink_metadata(path.parent()?).ok()?.uid();
    if peer.uid.as_raw() != owner {
        return None;
    }
    match ask(&stream, &Request::Status) {
        Ok(Answer::Status(report)) => Some(Mount { stream, report: *report, pid: peer.pid }),
        _ => None,
    }
}

fn is_stale(connection: &io::Result<UnixStream>) -> bool {
    connection.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn ask(stream: &UnixStream, request: &Request) -> io::Result<Answer> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    send(stream, request)?;
    receive(stream)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}
