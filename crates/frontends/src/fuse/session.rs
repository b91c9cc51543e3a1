//! The session: worker threads that take requests, have them served, and send the replies.
//!
//! Requests come in lanes: one is the device, and with io_uring there is one for each processor. Each worker serves one
//! request at a time, of one lane, on a queue of its own. Whenever a worker takes a request and no other worker of the lane
//! is left waiting, one more is started, so that a request never waits for a slower one; workers of the device that find
//! enough others idle end.

use super::awake::Awake;
use super::device::{Device, Queue, Received};
use super::locality::{Locality, only};
use super::negotiation::{InitAnswer, Negotiated, Wishes, negotiate};
use super::reply::Reply;
use super::request::{DecodeError, Layout, Operation, Request, decode};
use super::statistics::{FRONT_END, Place, REQUESTS_PER_WATCHED, Statistics};
use super::trace;
use super::uring::UringQueue;
use super::wire::{self, Opcode};
use super::yielding::{Pace, Yielding};
use rustix::thread::sched_setaffinity;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use vnode::profile;
use waiting::Waiting;

mod waiting;

/// What serves the requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Serves one request: results go into `reply`, which is empty. Blocking is fine, panicking is survived.
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome;

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
/// Workers that each processor's lane begins with: one that serves and one that waits meanwhile.
const WORKERS_OF_A_PROCESSOR: usize = 2;

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
    let mut queue = device.queue(wishes.message_bytes_max as usize);
    loop {
        match queue.receive() {
            Received::Request => {}
            Received::Closed => return Err(SessionError::Closed),
            Received::Failed(error) => return Err(SessionError::Device(error.into())),
        }
        let (message, mut reply) = queue.exchange();
        let Ok(request) = decode(message, Layout::default()) else { continue };
        let Operation::Init(offer) = &request.operation else {
            let length = reply.finish_error(request.unique, libc::EIO);
            send(&mut queue, Some(length));
            continue;
        };
        match negotiate(offer, wishes, page_size) {
            InitAnswer::Agreed(answer, negotiated) => {
                reply.put(&*answer);
                let length = reply.finish(request.unique);
                queue.send(Some(length)).map_err(SessionError::Device)?;
                return Ok(negotiated);
            }
            InitAnswer::AskAgain(answer) => {
                reply.put(&*answer);
                let length = reply.finish(request.unique);
                queue.send(Some(length)).map_err(SessionError::Device)?;
            }
            InitAnswer::TooOld { major, minor } => {
                let length = reply.finish_error(request.unique, libc::EPROTO);
                send(&mut queue, Some(length));
                return Err(SessionError::KernelTooOld { major, minor });
            }
        }
    }
}

/// Where requests come from, and the workers that take them.
struct Lane {
    /// Those of callers on this processor, through io_uring; `None`: those that come through the device.
    processor: Option<u16>,
    waiting: Waiting,
    pace: Pace,
}

impl Lane {
    fn new(processor: Option<u16>) -> Lane {
        Lane { processor, waiting: Waiting::default(), pace: Pace::default() }
    }
}

/// A worker to be started.
struct Start {
    /// Which of the lanes is its own.
    lane: usize,
    /// Who waits to know whether it could be.
    told: Option<Sender<std::io::Result<()>>>,
}

/// A running session.
pub(crate) struct Session<H: Handler> {
    shared: Arc<Shared<H>>,
    uring: std::io::Result<()>,
}

struct Shared<H: Handler> {
    device: Arc<Device>,
    mount_point: PathBuf,
    handler: Arc<H>,
    layout: Layout,
    /// The kernel keeps what is written for a while.
    writes_back: bool,
    message_bytes_max: usize,
    statistics: Arc<Statistics>,
    locality: Locality,
    awake: Awake,
    /// Of those that have a processor.
    yielding: Option<Yielding>,
    /// The first is that of the device.
    lanes: Vec<Lane>,
    /// Workers that exist or are being started.
    workers: Mutex<usize>,
    last_worker_ended: Condvar,
    starter: Sender<Start>,
}

impl<H: Handler> Session<H> {
    /// Starts serving after a handshake.
    pub(crate) fn start(
        device: Arc<Device>,
        mount_point: &Path,
        handler: Arc<H>,
        negotiated: &Negotiated,
        statistics: Arc<Statistics>,
        stay_awake: Duration,
    ) -> Result<Session<H>, SessionError> {
        let (starter, requests) = channel();
        let queues = if negotiated.has(wire::init::OVER_IO_URING) { processors() } else { 0 };
        let yielding = (queues > 0).then(Yielding::new).flatten();
        // Without keepers, callers would leave the workers that follow them.
        let locality = if stay_awake.is_zero() { Locality::none() } else { Locality::new() };
        let shared = Arc::new(Shared {
            device,
            mount_point: mount_point.to_owned(),
            handler,
            writes_back: negotiated.has(wire::init::WRITEBACK_CACHE),
            layout: Layout { setxattr_long: negotiated.has(wire::init::SETXATTR_EXT) },
            message_bytes_max: negotiated.max_write as usize,
            statistics,
            awake: Awake::new(stay_awake, locality.allowed()),
            locality,
            yielding,
            lanes: std::iter::once(None).chain((0..queues).map(Some)).map(Lane::new).collect(),
            workers: Mutex::new(0),
            last_worker_ended: Condvar::new(),
            starter,
        });
        let for_starter = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("fuse-starter".into())
            .spawn(move || run_starter(&for_starter, &requests))
            .map_err(SessionError::Thread)?;
        start_worker(&shared, 0, None).map_err(|error| SessionError::Thread(std::io::Error::other(error)))?;
        let uring = start_lanes(&shared);
        if uring.is_err() {
            decline_uring(&shared.device).map_err(SessionError::Device)?;
        }
        Ok(Session { shared, uring })
    }

    /// Whether the processors have queues of their own, if that was agreed on.
    ///
    /// # Errors
    /// If they could not be set up: then all requests come through the device.
    pub(crate) fn uring(&self) -> Result<(), &std::io::Error> {
        self.uring.as_ref().copied()
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
fn start_worker<H: Handler>(
    shared: &Arc<Shared<H>>,
    lane: usize,
    told: Option<Sender<std::io::Result<()>>>,
) -> Result<(), &'static str> {
    let mut workers = shared.workers.lock().unwrap_or_else(PoisonError::into_inner);
    if *workers >= WORKERS_MAX {
        return Err("as many as allowed are busy");
    }
    *workers += 1;
    shared.lanes[lane].waiting.join();
    // The starter lives as long as any worker.
    shared.starter.send(Start { lane, told }).map_err(|_| "the session has ended")
}

/// Has the first workers of all processors started, and waits until every queue has its own. The kernel uses io_uring once
/// every queue has one, and never if it has refused any.
fn start_lanes<H: Handler>(shared: &Arc<Shared<H>>) -> std::io::Result<()> {
    let (told, answers) = channel();
    for lane in 1..shared.lanes.len() {
        for _ in 0..WORKERS_OF_A_PROCESSOR {
            start_worker(shared, lane, Some(told.clone())).map_err(std::io::Error::other)?;
        }
    }
    drop(told);
    let registered = answers.iter().collect::<std::io::Result<Vec<()>>>()?.len();
    match registered == (shared.lanes.len() - 1) * WORKERS_OF_A_PROCESSOR {
        true => Ok(()),
        false => Err(std::io::Error::other("a thread cannot be started")),
    }
}

/// Has the kernel send all requests through the device: it waits for all queues to have an entry, unless it had to refuse
/// one, as one for a processor that cannot be.
fn decline_uring(device: &Arc<Device>) -> std::io::Result<()> {
    match UringQueue::register(device, u16::MAX, 0) {
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
        _ => Ok(()),
    }
}

/// How many processors this machine may ever have: the kernel has as many queues.
fn processors() -> u16 {
    count_of(&std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default())
}

/// How many numbers a list such as `0-3,8` has; 0 if it is none.
fn count_of(list: &str) -> u16 {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u16>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    list.trim().split(',').try_fold(0u16, |sum, range| sum.checked_add(count(range)?)).unwrap_or(0)
}

/// Starts workers when asked. A thread begins with the credentials of the one that makes it, and workers act with their
/// callers': this thread, which serves no request, keeps the process's own, with which the device can be opened.
fn run_starter<H: Handler>(shared: &Weak<Shared<H>>, requests: &Receiver<Start>) {
    for Start { lane, told } in requests {
        let Some(shared) = shared.upgrade() else { return };
        let for_thread = Arc::clone(&shared);
        let worker = std::thread::Builder::new().name("fuse-worker".into()).stack_size(WORKER_STACK_BYTES);
        let started = worker.spawn(move || {
            let ending = EndOfWorker(&for_thread);
            if for_thread.writes_back {
                // Then it never waits for pages of which it would have to serve the writes; who may not ask for this has
                // a kernel that keeps few of them.
                let _ = rustix::process::configure_io_flusher_behavior(true);
            }
            match for_thread.lanes[lane].processor {
                None => work(&for_thread, lane, &mut for_thread.device.queue(for_thread.message_bytes_max)),
                Some(processor) => work_on(&for_thread, lane, processor, told),
            }
            drop(ending);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "no further worker thread; requests may wait for slower ones");
            shared.lanes[lane].waiting.part();
            drop(EndOfWorker(&shared));
        }
    }
}

/// Has the kernel look for requests that came while the queue of a processor had no entry: a new one gets only those that
/// come after it, and the others wait until one of the queue is answered. So one is made there, about the state of the file
/// system, which the kernel knows nothing of. If the mount is gone from its place it is not made: others may come then.
fn stir<H: Handler>(shared: &Shared<H>, processor: u16) {
    let mount_point = shared.mount_point.clone();
    let ask = move || {
        let _ = sched_setaffinity(None, &only(processor.into()));
        let _ = rustix::fs::statfs(mount_point);
    };
    if let Err(error) = std::thread::Builder::new().name("fuse-stir".into()).spawn(ask) {
        tracing::warn!(%error, "requests may wait for slower ones");
    }
}

/// The work of a thread that stays on a processor and serves what callers there ask.
fn work_on<H: Handler>(
    shared: &Arc<Shared<H>>,
    lane: usize,
    processor: u16,
    told: Option<Sender<std::io::Result<()>>>,
) {
    // It may be refused, or there may be no such processor now: then it works where it can.
    let _ = sched_setaffinity(None, &only(processor.into()));
    match (UringQueue::register(&shared.device, processor, shared.message_bytes_max), told) {
        (Ok(mut queue), told) => {
            match told {
                // Nobody waits any more if another worker could not be started.
                Some(told) => drop(told.send(Ok(()))),
                // Others of the lane are busy.
                None => stir(shared, processor),
            }
            work(shared, lane, &mut queue);
        }
        (Err(error), told) => {
            shared.lanes[lane].waiting.part();
            match told {
                Some(told) => drop(told.send(Err(error))),
                None => tracing::warn!(%error, "no further worker; requests may wait for slower ones"),
            }
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

fn work<H: Handler>(shared: &Arc<Shared<H>>, lane: usize, queue: &mut impl Queue) {
    let Lane { processor, waiting, pace } = &shared.lanes[lane];
    // Others stay on their processor.
    let _place = processor.is_none().then(|| shared.locality.join());
    let mut service = Service { shared, processor: *processor, place: shared.statistics.place(), requests: 0 };
    let yielder = processor.and(shared.yielding.as_ref()).map(|yielding| yielding.join(pace));
    loop {
        let received = queue.receive();
        if let Some(yielder) = &yielder {
            yielder.received();
        }
        let was_last = waiting.part();
        match received {
            Received::Request => {}
            Received::Closed => return,
            Received::Failed(error) => {
                // Such as a shortage of memory. Requests of programs wait on us: try again.
                tracing::error!(%error, "reading from the FUSE device failed");
                std::thread::sleep(PAUSE_AFTER_FAILURE);
                waiting.join();
                continue;
            }
        }
        if was_last && let Err(error) = start_worker(shared, lane, None) {
            tracing::warn!("no further worker thread ({error}); requests may wait for slower ones");
        }
        let (message, mut reply) = queue.exchange();
        let length = service.serve(message, &mut reply);
        // Before the reply: whoever gets it may ask again at once, and this worker is as good as waiting.
        waiting.join();
        // A caller that is alone stays here anyway while the others are kept awake.
        if let Some(yielder) = &yielder
            && !shared.awake.keeps()
        {
            yielder.replies();
        }
        send(queue, length);
        // The kernel may give the entry of a ring a request until it is taken back, which would fail then.
        if processor.is_none() && waiting.part_if_enough() {
            return;
        }
    }
}

/// What a worker needs to have requests served.
struct Service<'a, H: Handler> {
    shared: &'a Shared<H>,
    /// The worker's, if it stays on one.
    processor: Option<u16>,
    place: &'a Place,
    /// So many so far.
    requests: u32,
}

impl<H: Handler> Service<'_, H> {
    /// Has a request served; the result is the length of the message to answer with, if one is due.
    fn serve(&mut self, message: &[u8], reply: &mut Reply<'_>) -> Option<usize> {
        let started = Instant::now();
        let request = match decode(message, self.shared.layout) {
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
        let home = self.shared.locality.request(request.pid, message.len(), self.processor);
        self.shared.awake.request(home);
        let trace = trace::start(&request);
        let outcome = self.handle(&request, reply);
        self.place.count(request.opcode, matches!(outcome, Outcome::Failed(_)), started.elapsed());
        if let Some(trace) = trace {
            trace.finish(outcome, reply);
        }
        match outcome {
            Outcome::Done => {
                self.shared.locality.reply(reply.payload().len());
                Some(reply.finish(request.unique))
            }
            Outcome::Failed(errno) => Some(reply.finish_error(request.unique, errno)),
            Outcome::NoReply => None,
        }
    }

    /// Has one request in many watched.
    fn handle(&mut self, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome {
        let mut handle = || handle_unwinding(&*self.shared.handler, request, reply);
        let is_watched = self.requests.is_multiple_of(REQUESTS_PER_WATCHED);
        self.requests = self.requests.wrapping_add(1);
        if !is_watched {
            return handle();
        }
        let (outcome, parts) = profile::watch(FRONT_END, handle);
        self.place.count_parts(&parts);
        outcome
    }
}

/// A panic in a layer fails the request that met it, and nothing else.
fn handle_unwinding<H: Handler>(handler: &H, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome {
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

fn send(queue: &mut impl Queue, reply: Option<usize>) {
    if let Err(error) = queue.send(reply) {
        tracing::error!(%error, "the kernel refused a reply");
    }
}

#[cfg(test)]
mod tests;
