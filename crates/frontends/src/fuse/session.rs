//! The session: worker threads that take requests, have them served, and send the replies.
//!
//! Requests come in lanes: one is the device, and with io_uring there is one for each processor. Each worker serves one
//! request at a time, of one lane, on a queue of its own. Whenever a worker takes a request and no other worker of the lane
//! is left waiting, one more is started, so that a request never waits for a slower one; workers of the device that find
//! enough others idle end.

use super::awake::Awake;
use super::device::{Device, Queue, Received};
use super::locality::Locality;
use super::negotiation::{InitAnswer, Negotiated, Wishes, negotiate};
use super::reply::Reply;
use super::request::{Layout, Operation, Request, decode};
use super::statistics::Statistics;
use super::wire;
use super::yielding::Yielding;
use serving::Service;
use starting::{Lane, Start, decline_uring, processors, run_starter, start_device, start_lanes, start_worker};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

mod serving;
mod starting;
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

/// How long a worker waits after a failure of the device.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Why a session could not be started.
#[derive(Debug)]
pub(crate) enum SessionError {
    /// The kernel speaks a protocol older than this front end can.
    KernelTooOld { major: u32, minor: u32 },
    /// The connection ended before it was set up.
    Closed,
    /// The device failed.
    Device(std::io::Error),
    /// No thread could be started, or it had no memory.
    Thread(std::io::Error),
}

/// Answers the kernel's INIT, which comes first on every connection.
pub(crate) fn handshake(device: &Arc<Device>, wishes: &Wishes) -> Result<Negotiated, SessionError> {
    let page_size = rustix::param::page_size() as u32;
    let mut queue = device.queue(wishes.message_bytes_max as usize).map_err(SessionError::Device)?;
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
        start_device(&shared).map_err(SessionError::Thread)?;
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

fn send(queue: &mut impl Queue, reply: Option<usize>) {
    if let Err(error) = queue.send(reply) {
        tracing::error!(%error, "the kernel refused a reply");
    }
}

#[cfg(test)]
mod tests;
