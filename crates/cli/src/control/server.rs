//! The server's end of the control socket.
//!
//! Threads that wait for connections are started with the mount. Whichever takes the last one's place when all are busy is
//! started then; where that is not possible, as under a limit of processes, connections wait for those that there are.

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
pub trait Answerer: Send + Sync + 'static {
    /// The answer to `request`.
    fn answer(&self, request: Request) -> Answer;
}

/// The socket of this process. Dropping it removes it.
pub struct Server {
    directory: Directory,
    name: String,
}

impl Server {
    /// Makes the socket and answers requests in threads of its own.
    pub fn start(answerer: Arc<dyn Answerer>) -> Outcome<Server> {
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

/// Threads that wait for connections when there are none.
const IDLE_THREADS: usize = 2;

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

/// What the threads of a control socket share.
struct Control {
    listener: UnixListener,
    answerer: Arc<dyn Answerer>,
    /// Threads that wait for a connection, or will as soon as they run.
    waiting: AtomicUsize,
}

impl Control {
    /// Starts one more thread that answers.
    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let control = Arc::clone(self);
        let started = thread::Builder::new().name("control".into()).spawn(vnode::as_server(move || control.serve()));
        started.map(drop).inspect_err(|_| {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        })
    }

    /// As [`Control::start_thread`], if that is possible.
    fn start_further(self: &Arc<Self>) {
        if let Err(error) = self.start_thread() {
            tracing::warn!(%error, "no further thread for the control socket: connections may wait for each other");
        }
    }

    /// Answers connections as long as not enough others wait for them.
    fn serve(self: &Arc<Self>) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
                        self.start_further();
                    }
                    // A panic ends its connection and nothing else.
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

/// How long a connection may be without a request: a command that has asked all servers waits for the slowest before it goes on.
const IDLE: Duration = Duration::from_secs(4 * PATIENCE.as_secs());

/// Answers one connection's requests until it ends.
pub(super) fn converse(stream: &UnixStream, answerer: &dyn Answerer) {
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

/// Answers a request, and until then tells how far it is. A long text is sent in parts.
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
        // Where it cannot be started, whoever asks waits no longer than for other requests.
        let _ = thread::Builder::new().name("progress".into()).spawn_scoped(scope, vnode::as_server(tell));
        let answer = progress.of(|| answerer.answer(request));
        drop(over);
        answer
    })
}

fn is_allowed(stream: &UnixStream) -> bool {
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw())
}
