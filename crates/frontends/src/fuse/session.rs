//! The session: worker threads that take requests, have them served, and send the replies.
//!
//! Each worker serves one request at a time on a queue of its own. Whenever a worker takes a request and no other
//! worker is left waiting, one more is started, so that a request never waits for a slower one; workers that find
//! enough others idle end.

use super::awake::Awake;
use super::device::{Device, Queue, Received};
use super::locality::Locality;
use super::negotiation::{InitAnswer, Negotiated, Wishes, negotiate};
use super::reply::Reply;
use super::request::{DecodeError, Layout, Operation, Request, decode};
use super::statistics::Counters;
use super::trace;
use super::wire::{self, Opcode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;
use waiting::Waiting;

mod waiting;

/// What serves the requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Serves one request: results go into `reply`, which is empty. Blocking is fine, panicking is survived.
    fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Outcome;

    /// The connection has ended and the last request is served: whatever the kernel had open is to be let go, since an
    /// unmount need not send every release.
    fn closed(&self);
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reply holds the results.
    Done,
    /// It failed with this errno.
    Failed(i32),
    /// The kernel expects no answer.
    NoReply,
}

/// No more workers than this, however many requests are stuck (waiting for locks, mostly).
const WORKERS_MAX: usize = 2048;
/// How long a worker waits after a failure of the device.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Address space for a worker's stack; memory is taken as it is used.
const WORKER_STACK_BYTES: usize = 2 << 20;
/// Room for a request's header and arguments beside the data of a write.
const REQUEST_OVERHEAD_BYTES: usize = 8192;

/// Why a session could not be started.
#[derive(Debug)]
pub(crate) enum SessionError {
    /// The kernel speaks a protocol older than this front end can.
    KernelTooOld { major: u32, minor: u32 },
    /// The connection ended before it was set up.
    Closed,
    /// The device failed.
    Device(std::io::Error),
    /// No thread could be started.
    Thread(std::io::Error),
}

/// Answers the kernel's INIT, which comes first on every connection.
pub(crate) fn handshake(device: &Arc<Device>, wishes: &Wishes) -> Result<Negotiated, SessionError> {
    let page_size = rustix::param::page_size() as u32;
    let mut queue = device.queue();
    let mut buffer = vec![0; wishes.message_bytes_max as usize + REQUEST_OVERHEAD_BYTES];
    let mut reply = Reply::new(size_of::<wire::InitOut>());
    loop {
        let length = match queue.receive(&mut buffer) {
            Received::Request(length) => length,
            Received::Closed => return Err(SessionError::Closed),
            Received::Failed(error) => return Err(SessionError::Device(error.into())),
        };
        let Ok(request) = decode(&buffer[..length], Layout::default()) else { continue };
        let Operation::Init(offer) = &request.operation else {
            send(&mut queue, reply.finish_error(request.unique, libc::EIO));
            continue;
        };
        reply.clear();
        match negotiate(offer, wishes, page_size) {
            InitAnswer::Agreed(answer, negotiated) => {
                reply.put(&*answer);
                queue.send(reply.finish(request.unique)).map_err(SessionError::Device)?;
                return Ok(negotiated);
            }
            InitAnswer::AskAgain(answer) => {
                reply.put(&*answer);
                queue.send(reply.finish(request.unique)).map_err(SessionError::Device)?;
            }
            InitAnswer::TooOld { major, minor } => {
                send(&mut queue, reply.finish_error(request.unique, libc::EPROTO));
                return Err(SessionError::KernelTooOld { major, minor });
            }
        }
    }
}

/// A running session.
pub(crate) struct Session<H: Handler> {
    shared: Arc<Shared<H>>,
}

struct Shared<H: Handler> {
    device: Arc<Device>,
    handler: Arc<H>,
    layout: Layout,
    message_bytes_max: usize,
    counters: Arc<Counters>,
    locality: Locality,
    awake: Awake,
    waiting: Waiting,
    /// Workers that exist or are being started.
    workers: Mutex<usize>,
    last_worker_ended: Condvar,
    starter: Sender<()>,
}

impl<H: Handler> Session<H> {
    /// Starts serving after a handshake.
    pub(crate) fn start(
        device: Arc<Device>,
        handler: Arc<H>,
        negotiated: &Negotiated,
        counters: Arc<Counters>,
        stay_awake: Duration,
    ) -> Result<Session<H>, SessionError> {
        let (starter, requests) = channel();
        // Without keepers, callers would leave the workers that follow them.
        let locality = if stay_awake.is_zero() { Locality::none() } else { Locality::new() };
        let shared = Arc::new(Shared {
            device,
            handler,
            layout: Layout { setxattr_long: negotiated.has(wire::init::SETXATTR_EXT) },
            message_bytes_max: negotiated.max_write as usize,
            counters,
            awake: Awake::new(stay_awake, locality.allowed()),
            locality,
            waiting: Waiting::default(),
            workers: Mutex::new(0),
            last_worker_ended: Condvar::new(),
            starter,
        });
        let for_starter = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("fuse-starter".into())
            .spawn(move || run_starter(&for_starter, &requests))
            .map_err(SessionError::Thread)?;
        start_worker(&shared).map_err(|error| SessionError::Thread(std::io::Error::other(error)))?;
        Ok(Session { shared })
    }

    /// Waits until the file system is unmounted and all requests are served.
    pub(crate) fn wait(&self) {
        let workers = self.lock_workers();
        let _ended = self
            .shared
            .last_worker_ended
            .wait_while(workers, |count| *count > 0)
            .unwrap_or_else(PoisonError::into_inner);
    }

    /// As [`Session::wait`], for a while at most: whether it is over.
    pub(crate) fn wait_timeout(&self, timeout: Duration) -> bool {
        let workers = self.lock_workers();
        let (count, _) = self
            .shared
            .last_worker_ended
            .wait_timeout_while(workers, timeout, |count| *count > 0)
            .unwrap_or_else(PoisonError::into_inner);
        *count == 0
    }

    /// Worker threads now.
    pub(crate) fn workers(&self) -> usize {
        *self.lock_workers()
    }

    fn lock_workers(&self) -> std::sync::MutexGuard<'_, usize> {
        self.shared.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has one more worker started. It counts as waiting from here on, so that two requests in quick succession do not both
/// start one.
fn start_worker<H: Handler>(shared: &Arc<Shared<H>>) -> Result<(), &'static str> {
    let mut workers = shared.workers.lock().unwrap_or_else(PoisonError::into_inner);
    if *workers >= WORKERS_MAX {
        return Err("as many as allowed are busy");
    }
    *workers += 1;
    shared.waiting.join();
    // The starter lives as long as any worker.
    shared.starter.send(()).map_err(|_| "the session has ended")
}

/// Starts workers when asked. A thread begins with the credentials of the one that makes it, and workers act with their
/// callers': this thread, which serves no request, keeps the process's own, with which the device can be opened.
fn run_starter<H: Handler>(shared: &Weak<Shared<H>>, requests: &Receiver<()>) {
    for () in requests {
        let Some(shared) = shared.upgrade() else { return };
        let queue = shared.device.queue();
        let for_thread = Arc::clone(&shared);
        let worker = std::thread::Builder::new().name("fuse-worker".into()).stack_size(WORKER_STACK_BYTES);
        let started = worker.spawn(move || {
            let ending = EndOfWorker(&for_thread);
            work(&for_thread, queue);
            drop(ending);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "no further worker thread; requests may wait for slower ones");
            shared.waiting.part();
            drop(EndOfWorker(&shared));
        }
    }
}

/// Counts a worker off, however it ends.
struct EndOfWorker<'a, H: Handler>(&'a Shared<H>);

impl<H: Handler> Drop for EndOfWorker<'_, H> {
    fn drop(&mut self) {
        let mut workers = self.0.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if *workers == 1 {
            // No other can start: only workers start workers.
            drop(workers);
            let closing = catch_unwind(AssertUnwindSafe(|| self.0.handler.closed()));
            if closing.is_err() {
                tracing::error!("releasing what was open panicked");
            }
            workers = self.0.workers.lock().unwrap_or_else(PoisonError::into_inner);
        }
        *workers -= 1;
        if *workers == 0 {
            self.0.last_worker_ended.notify_all();
        }
    }
}

fn work<H: Handler>(shared: &Arc<Shared<H>>, mut queue: impl Queue) {
    let mut buffer = vec![0; shared.message_bytes_max + REQUEST_OVERHEAD_BYTES];
    let mut reply = Reply::new(shared.message_bytes_max);
    let _place = shared.locality.join();
    loop {
        let received = queue.receive(&mut buffer);
        let was_last = shared.waiting.part();
        let length = match received {
            Received::Request(length) => length,
            Received::Closed => return,
            Received::Failed(error) => {
                // Such as a shortage of memory. Requests of programs wait on us: try again.
                tracing::error!(%error, "reading from the FUSE device failed");
                std::thread::sleep(PAUSE_AFTER_FAILURE);
                shared.waiting.join();
                continue;
            }
        };
        if was_last && let Err(error) = start_worker(shared) {
            tracing::warn!("no further worker thread ({error}); requests may wait for slower ones");
        }
        let message = serve(shared, &buffer[..length], &mut reply);
        // Before the reply: whoever gets it may ask again at once, and this worker is as good as waiting.
        shared.waiting.join();
        if let Some(message) = message {
            send(&mut queue, message);
        }
        if shared.waiting.part_if_enough() {
            return;
        }
    }
}

/// Has a request served; the result is the message to answer with, if one is due.
fn serve<'a, H: Handler>(shared: &Shared<H>, message: &[u8], reply: &'a mut Reply) -> Option<&'a [u8]> {
    reply.clear();
    let request = match decode(message, shared.layout) {
        Ok(request) => request,
        Err(error) => {
            tracing::warn!("{error}");
            return match error {
                DecodeError::Header { .. } => None,
                DecodeError::UnknownOpcode { unique, .. } => Some(reply.finish_error(unique, libc::ENOSYS)),
                DecodeError::Arguments { unique, .. } => Some(reply.finish_error(unique, libc::EINVAL)),
            };
        }
    };
    let home = shared.locality.request(request.pid, message.len());
    shared.awake.request(home);
    let trace = trace::start(&request);
    let outcome = handle_unwinding(&*shared.handler, &request, reply);
    shared.counters.count(request.opcode, matches!(outcome, Outcome::Failed(_)));
    if let Some(trace) = trace {
        trace.finish(outcome, reply);
    }
    match outcome {
        Outcome::Done => {
            shared.locality.reply(reply.payload().len());
            Some(reply.finish(request.unique))
        }
        Outcome::Failed(errno) => Some(reply.finish_error(request.unique, errno)),
        Outcome::NoReply => None,
    }
}

/// A panic in a layer fails the request that met it, and nothing else.
fn handle_unwinding<H: Handler>(handler: &H, request: &Request<'_>, reply: &mut Reply) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| handler.handle(request, reply))).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        tracing::error!(operation = %trace::describe(request), message, "a request panicked and fails with EIO");
        match request.opcode {
            Opcode::Forget | Opcode::BatchForget => Outcome::NoReply,
            _ => Outcome::Failed(libc::EIO),
        }
    })
}

fn send(queue: &mut impl Queue, message: &[u8]) {
    if let Err(error) = queue.send(message) {
        tracing::error!(%error, "the kernel refused a reply");
    }
}

#[cfg(test)]
mod tests;
