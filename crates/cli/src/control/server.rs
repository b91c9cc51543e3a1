//! The server's end of the control socket.
//!
//! A mount starts with a set of threads that wait for connections. When all of them are busy, the last one to become busy
//! starts another; if that fails, as under a process limit, connections wait for a free thread.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::process::geteuid;
use vnode::progress::Progress;

use super::{Answer, Lines, PART_BYTES, PATIENCE, PROGRESS_INTERVAL, Request, send};
use crate::exit::{Exit, Failure, Outcome};
use crate::runtime_directory::{self, Directory};

/// Answers requests. Called from several threads.
pub(crate) trait Answerer: Send + Sync + 'static {
    /// Returns the answer to `request`.
    fn answer(&self, request: Request) -> Answer;
}

/// The control socket of this process, removed on drop.
pub(crate) struct Server {
    directory: Directory,
    name: String,
}

impl Server {
    /// Creates the socket and answers requests in dedicated threads.
    pub(crate) fn start(answerer: Arc<dyn Answerer>) -> Outcome<Server> {
        let directory = runtime_directory::make()?;
        super::client::remove_stale(&directory);
        let name = format!("{}.sock", std::process::id());
        let path = directory.path().join(&name);
        let listener = listen(&directory.place().join(&name)).map_err(|error| failure(&path, &error))?;
        let control = Arc::new(Control { listener, answerer, waiting: AtomicUsize::new(0) });
        control.start_thread().map_err(|error| failure(&path, &error))?;
        control.start_further();
        Ok(Server { directory, name })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.directory.place().join(&self.name));
    }
}

/// Number of threads that wait for connections while the socket is idle.
const IDLE_THREADS: usize = 2;

/// Binds under a temporary name and renames: a client that finds the socket can connect, and does not mistake it for a stale
/// one.
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

/// State shared by the threads of a control socket.
struct Control {
    listener: UnixListener,
    answerer: Arc<dyn Answerer>,
    /// Number of threads that wait for a connection, or will as soon as they run.
    waiting: AtomicUsize,
}

impl Control {
    /// Starts another thread that answers connections.
    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let control = Arc::clone(self);
        let started = thread::Builder::new().name("control".into()).spawn(vnode::as_server(move || control.serve()));
        started.map(drop).inspect_err(|_| {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        })
    }

    /// Calls [`Control::start_thread`], and logs a warning if no thread can be started.
    fn start_further(self: &Arc<Self>) {
        if let Err(error) = self.start_thread() {
            tracing::warn!(%error, "no further thread for the control socket: connections may wait for each other");
        }
    }

    /// Answers connections until enough other threads wait for them.
    fn serve(self: &Arc<Self>) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
                        self.start_further();
                    }
                    // A panic ends only its connection.
                    let _ = catch_unwind(AssertUnwindSafe(|| converse(&stream, self.answerer.as_ref())));
                    let rejoin = |waiting: usize| (waiting < IDLE_THREADS).then_some(waiting + 1);
                    if self.waiting.fetch_update(Ordering::SeqCst, Ordering::SeqCst, rejoin).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the control socket does not accept");
                    thread::sleep(Duration::from_secs(1));
                }
            }
        }
    }
}

/// Maximum idle time of a connection between requests: a command that has queried all servers waits for the slowest before it
/// continues.
const IDLE: Duration = Duration::from_secs(4 * PATIENCE.as_secs());

/// Answers the requests of one connection until it ends.
pub(crate) fn converse(stream: &UnixStream, answerer: &dyn Answerer) {
    if !is_allowed(stream) {
        let _ =
            send(stream, &Answer::Error("only root and the user who mounted may do this; become one of them".into()));
        return;
    }
    if stream.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let mut requests = Lines::of(stream);
    loop {
        let answered = match requests.receive::<Request>(Instant::now() + IDLE) {
            Ok(Some(request @ Request::Control { follows: true, .. })) => answer_follower(stream, request, answerer),
            Ok(Some(request)) => send(stream, &answerer.answer(request)),
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                send(stream, &Answer::Error(format!("not a request: {error}")))
            }
            Err(_) => return,
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Answers a request, reports progress until then, and sends a long text in parts.
fn answer_follower(stream: &UnixStream, request: Request, answerer: &dyn Answerer) -> io::Result<()> {
    let text = match answer_with_progress(stream, request, answerer) {
        Answer::Text(text) => text,
        other => return send(stream, &other),
    };
    let mut rest = text.as_str();
    while rest.len() > PART_BYTES {
        let (part, after) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        send(stream, &Answer::Part(part.to_owned()))?;
        rest = after;
    }
    send(stream, &Answer::Text(rest.to_owned()))
}

fn answer_with_progress(stream: &UnixStream, request: Request, answerer: &dyn Answerer) -> Answer {
    let progress = Progress::default();
    let (over, is_over) = channel::<()>();
    thread::scope(|scope| {
        let counted = &progress;
        let tell = move || {
            while is_over.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if send(stream, &Answer::Progress(counted.objects())).is_err() {
                    return;
                }
            }
        };
        // Without the progress thread, the client waits no longer than for other requests.
        let _ = thread::Builder::new().name("progress".into()).spawn_scoped(scope, vnode::as_server(tell));
        let answer = progress.of(|| answerer.answer(request));
        drop(over);
        answer
    })
}

fn is_allowed(stream: &UnixStream) -> bool {
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw())
}
