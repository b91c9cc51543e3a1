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

use super::{JsonLines, MAX_PART_BYTES, PROGRESS_INTERVAL, RESPONSE_TIMEOUT, Request, Response, send};
use crate::exit::{Exit, Failure, Outcome};
use crate::runtime_directory::{self, RuntimeDirectory};

/// Answers requests. Called from several threads.
pub(crate) trait RequestHandler: Send + Sync + 'static {
    /// Returns the answer to `request`.
    fn handle(&self, request: Request) -> Response;
}

/// The control socket of this process, removed on drop.
pub(crate) struct ControlSocket {
    directory: RuntimeDirectory,
    name: String,
}

impl ControlSocket {
    /// Creates the socket and answers requests in dedicated threads.
    pub(crate) fn start(handler: Arc<dyn RequestHandler>) -> Outcome<ControlSocket> {
        let directory = runtime_directory::make()?;
        super::client::remove_stale(&directory);
        let name = format!("{}.sock", std::process::id());
        let path = directory.path().join(&name);
        let listener = listen(&directory.descriptor_path().join(&name)).map_err(|error| failure(&path, &error))?;
        let control = Arc::new(ControlSocketState { listener, handler, waiting: AtomicUsize::new(0) });
        control.start_thread().map_err(|error| failure(&path, &error))?;
        control.start_spare_thread();
        Ok(ControlSocket { directory, name })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.directory.descriptor_path().join(&self.name));
    }
}

/// Number of threads that wait for connections while the socket is idle.
const IDLE_THREAD_COUNT: usize = 2;

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
    let remedy = "check the permissions of its directory";
    Failure::new(Exit::Failure, format!("cannot create the control socket {}: {error}; {remedy}", path.display()))
}

/// State shared by the threads of a control socket.
struct ControlSocketState {
    listener: UnixListener,
    handler: Arc<dyn RequestHandler>,
    /// Number of threads that wait for a connection, or will as soon as they run.
    waiting: AtomicUsize,
}

impl ControlSocketState {
    /// Starts another thread that answers connections.
    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let control = Arc::clone(self);
        let started = thread::Builder::new().name("control".into()).spawn(vnode::as_server(move || control.serve()));
        started.map(drop).inspect_err(|_| {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        })
    }

    /// Calls [`ControlSocketState::start_thread`], and logs a warning if no thread can be started.
    fn start_spare_thread(self: &Arc<Self>) {
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
                        self.start_spare_thread();
                    }
                    // A panic ends only its connection.
                    let _ = catch_unwind(AssertUnwindSafe(|| serve_connection(&stream, self.handler.as_ref())));
                    let rejoin = |waiting: usize| (waiting < IDLE_THREAD_COUNT).then_some(waiting + 1);
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
const CONNECTION_IDLE_TIMEOUT: Duration = Duration::from_secs(4 * RESPONSE_TIMEOUT.as_secs());

/// Answers the requests of one connection until it ends.
pub(crate) fn serve_connection(stream: &UnixStream, handler: &dyn RequestHandler) {
    if !is_allowed(stream) {
        let _ = send(
            stream,
            &Response::Error("permission denied; run the command as root or as the user who mounted".into()),
        );
        return;
    }
    if stream.set_write_timeout(Some(RESPONSE_TIMEOUT)).is_err() {
        return;
    }
    let mut requests = JsonLines::of(stream);
    loop {
        let sent = match requests.receive::<Request>(Instant::now() + CONNECTION_IDLE_TIMEOUT) {
            Ok(Some(request @ Request::Control { follows: true, .. })) => respond_in_parts(stream, request, handler),
            Ok(Some(request)) => send(stream, &handler.handle(request)),
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                send(stream, &Response::Error(format!("not a request: {error}")))
            }
            Err(_) => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Answers a request, reports progress until then, and sends a long text in parts.
fn respond_in_parts(stream: &UnixStream, request: Request, handler: &dyn RequestHandler) -> io::Result<()> {
    let text = match handle_with_progress(stream, request, handler) {
        Response::Text(text) => text,
        other => return send(stream, &other),
    };
    let mut rest = text.as_str();
    while rest.len() > MAX_PART_BYTES {
        let (part, after) = rest.split_at(rest.floor_char_boundary(MAX_PART_BYTES));
        send(stream, &Response::Part(part.to_owned()))?;
        rest = after;
    }
    send(stream, &Response::Text(rest.to_owned()))
}

fn handle_with_progress(stream: &UnixStream, request: Request, handler: &dyn RequestHandler) -> Response {
    let progress = Progress::default();
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        let counted = &progress;
        let report = move || {
            while is_done.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if send(stream, &Response::Progress(counted.objects())).is_err() {
                    return;
                }
            }
        };
        // Without the progress thread, the client waits no longer than for other requests.
        let _ = thread::Builder::new().name("progress".into()).spawn_scoped(scope, vnode::as_server(report));
        let response = progress.of(|| handler.handle(request));
        drop(done);
        response
    })
}

fn is_allowed(stream: &UnixStream) -> bool {
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw())
}
