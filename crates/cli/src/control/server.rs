//! The server's end of the control socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::{Answer, PATIENCE, Request, receive, send};
use crate::exit::{Exit, Failure, Outcome};
use crate::runtime_directory;

/// Answers requests. Called from several threads.
pub trait Answerer: Send + Sync + 'static {
    /// The answer to `request`.
    fn answer(&self, request: Request) -> Answer;
}

/// The socket of this process. Dropping it removes it.
pub struct Server {
    path: PathBuf,
}

impl Server {
    /// Makes the socket and answers requests in a thread of its own.
    pub fn start(answerer: Arc<dyn Answerer>) -> Outcome<Server> {
        let directory = runtime_directory::make()?;
        super::client::remove_stale(&directory);
        let path = directory.join(format!("{}.sock", std::process::id()));
        let listener = listen(&path).map_err(|error| failure(&path, &error))?;
        thread::Builder::new()
            .name("control".into())
            .spawn(move || serve(&listener, &answerer))
            .map_err(|error| failure(&path, &error))?;
        Ok(Server { path })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds under another name and renames: whoever finds the socket can connect, and need not take it for a stale one.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let hidden = path.with_extension("new");
    match fs::remove_file(&hidden) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&hidden)?;
    fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
    fs::rename(&hidden, path)?;
    Ok(listener)
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    let remedy = "check that its directory can be written";
    Failure::new(Exit::Failure, format!("cannot make the control socket {}: {error}; {remedy}", path.display()))
}

fn serve(listener: &UnixListener, answerer: &Arc<dyn Answerer>) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let answerer = Arc::clone(answerer);
                let connection = move || converse(&stream, answerer.as_ref());
                if let Err(error) = thread::Builder::new().name("control".into()).spawn(connection) {
                    tracing::warn!(%error, "a control connection was refused");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the control socket does not accept");
                thread::sleep(Duration::from_secs(1));
            }
        }
    }
}

/// Answers one connection's requests until it ends.
fn converse(stream: &UnixStream, answerer: &dyn Answerer) {
    if !is_allowed(stream) {
        let _ =
            send(stream, &Answer::Error("only root and the user who mounted may do this; become one of them".into()));
        return;
    }
    if stream.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    loop {
        let answer = match receive::<Request>(stream, Instant::now() + PATIENCE) {
            Ok(Some(request)) => answerer.answer(request),
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Answer::Error(format!("not a request: {error}"))
            }
            Err(_) => return,
        };
        if send(stream, &answer).is_err() {
            return;
        }
    }
}

fn is_allowed(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid())
}
