//! The session: worker threads that take requests, have them served, and send the replies.
//!
//! Requests come in lanes: one is the device, and with io_uring there is one for each processor. Each worker serves one
//! request at a time, of one lane, on a queue of its own. Whenever a worker takes a request and no other worker of the lane
//! is left waiting, one more is started, so that a request never waits for a slower one; workers that find
//! enough others idle end, those of a ring after some time. A request that has to wait for somebody else keeps no worker, see
//! [`super::deferred`].

use super::awake::Awake;
use super::budget::workers_max;
use super::deferred::DeferredReply;
use super::device::{Device, Queue, Received};
use super::interrupts::Interrupts;
use super::locality::Locality;
use super::negotiation::{InitAnswer, Negotiated, Wishes, negotiate};
use super::reply::Reply;
use super::request::{Layout, Operation, Request, decode};
use super::seldom::Seldom;
use super::statistics::Statistics;
use super::uring::Reserve;
use super::wire;
use super::yielding::{Yielder, Yielding};
use serving::{Served, Service, refuse};
use shares::{Admittance, Member, Shares};
use starting::{
    Lane, Start, decline_uring, processors, run_starter, start_device, start_lanes, start_reserve, start_worker, stir,
};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

mod serving;
mod shares;
mod starting;
mod waiting;

/// What serves the requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Serves one request: results go into `reply`, which is empty. Blocking is fine, panicking is survived.
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome;

    /// The reply that a request with [`Outcome::Later`] is to get.
    fn defer(&self, unique: u64, reply: DeferredReply);

    /// A request with [`Outcome::Later`] has to be answered at once after all.
    fn give_up(&self, unique: u64) -> Outcome;

    /// A regular file that the kernel knows, if there is one.
    fn some_file(&self) -> Option<u64>;

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
    /// It waits, and is answered later through what [`Handler::defer`] gets.
    Later,
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
        match queue.receive(false) {
            Received::Request => {}
            Received::Idle | Received::MayEnd => continue,
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
    interrupts: Interrupts,
    shares: Shares,
    /// Workers that exist or are being started.
    workers: Mutex<usize>,
    last_worker_ended: Condvar,
    starter: Sender<Start>,
    /// Of those lanes that are processors'.
    reserve: OnceLock<Reserve>,
    no_worker: Seldom,
}

impl<H: Handler> Shared<H> {
    /// Under a limit this would be said at every request.
    fn tell_of_no_worker(&self, error: &dyn std::fmt::Display) {
        if self.no_worker.may_say() {
            tracing::warn!("no further worker thread ({error}); requests may wait for slower ones");
        }
    }
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
        // Who sends many requests is known by them; workers of the device would follow a caller that leaves them.
        let locality = if yielding.is_some() || !stay_awake.is_zero() { Locality::new() } else { Locality::none() };
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
            interrupts: Interrupts::default(),
            shares: Shares::new(workers_max(), 1 + usize::from(queues)),
            workers: Mutex::new(0),
            last_worker_ended: Condvar::new(),
            starter,
            reserve: OnceLock::new(),
            no_worker: Seldom::default(),
        });
        let for_starter = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("fuse-starter".into())
            .spawn(move || run_starter(&for_starter, &requests))
            .map_err(SessionError::Thread)?;
        start_device(&shared).map_err(SessionError::Thread)?;
        let uring = start_reserve(&shared).and_then(|()| start_lanes(&shared));
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

fn work<H: Handler>(shared: &Arc<Shared<H>>, lane: usize, queue: impl Queue) {
    let processor = shared.lanes[lane].processor;
    // Others stay on their processor.
    let _place = processor.is_none().then(|| shared.locality.join());
    let (place, serving) = (shared.statistics.place(), shared.interrupts.join());
    let service = Service { shared, processor, place, serving, requests: 0 };
    let yielder = processor.and(shared.yielding.as_ref()).map(|yielding| yielding.join(&shared.lanes[lane].pace));
    let mut worker = Worker { lane, queue, service, yielder, member: shared.shares.join(lane), keeps: false };
    loop {
        match worker.receive(shared) {
            Step::Serve => {}
            Step::Wait => continue,
            Step::Park => return worker.queue.end(),
            Step::End => return,
        }
        if !worker.is_admitted(shared) {
            continue;
        }
        // Without waiting for a request it goes on with those that were set aside.
        while worker.serve(shared) {}
        if processor.is_none() && shared.lanes[lane].waiting.part_if_enough() {
            return;
        }
    }
}

/// What a worker has.
struct Worker<'a, H: Handler, Q> {
    lane: usize,
    queue: Q,
    service: Service<'a, H>,
    yielder: Option<Yielder<'a>>,
    member: Member<'a>,
    /// It stays although it found nothing to do: nobody could be told to end.
    keeps: bool,
}

/// What a worker does next.
enum Step {
    /// A request is there.
    Serve,
    /// It waits for one.
    Wait,
    /// It ends, and leaves its queue behind.
    Park,
    /// It ends.
    End,
}

impl<H: Handler, Q: Queue> Worker<'_, H, Q> {
    /// Waits for a request.
    fn receive(&mut self, shared: &Shared<H>) -> Step {
        let waiting = &shared.lanes[self.lane].waiting;
        let received = self.queue.receive(!self.keeps && waiting.is_more_than_enough());
        if let Some(yielder) = &self.yielder {
            yielder.received(shared.locality.is_alone());
        }
        match received {
            Received::Request => {
                self.keeps = false;
                Step::Serve
            }
            Received::Idle => {
                // If nobody can be told now, it is tried again after the next request.
                self.keeps = !self.queue.idle();
                Step::Wait
            }
            Received::MayEnd if waiting.part_if_enough() => Step::Park,
            Received::MayEnd => {
                self.queue.decline();
                Step::Wait
            }
            Received::Closed => {
                waiting.part();
                Step::End
            }
            Received::Failed(error) => {
                // Such as a shortage of memory. Requests of programs wait on us: try again.
                tracing::error!(%error, "reading from the FUSE device failed");
                waiting.part();
                std::thread::sleep(PAUSE_AFTER_FAILURE);
                waiting.join();
                self.feed(shared);
                Step::Wait
            }
        }
    }

    /// Whether the request that has been received is to be served now: else it has been set aside, or refused, and the worker has
    /// been counted as waiting all the time.
    fn is_admitted(&mut self, shared: &Arc<Shared<H>>) -> bool {
        let sharer = self.member.sharer(self.queue.exchange().0);
        match self.member.admit(sharer, || self.queue.set_aside()) {
            Admittance::Served => {
                if shared.lanes[self.lane].waiting.part()
                    && let Err((error, _)) = start_worker(shared, Start::another(self.lane))
                {
                    shared.tell_of_no_worker(&error);
                }
                return true;
            }
            Admittance::Aside => self.feed(shared),
            Admittance::Refused => {
                let (message, mut reply) = self.queue.exchange();
                let length = refuse(message, &mut reply);
                send(&mut self.queue, length);
            }
        }
        false
    }

    /// Serves the request that is there, and answers it if it need not wait; whether there is another, that had been set aside.
    fn serve(&mut self, shared: &Shared<H>) -> bool {
        let waiting = &shared.lanes[self.lane].waiting;
        let (message, mut reply) = self.queue.exchange();
        let length = match self.service.serve(message, &mut reply) {
            Served::Now(length) => length,
            Served::Later(unique) => {
                if let Some(aside) = self.member.next() {
                    shared.handler.defer(unique, self.queue.defer_and_resume(unique, aside));
                    return true;
                }
                match self.queue.defer(unique) {
                    Ok(reply) => {
                        waiting.join();
                        self.feed(shared);
                        shared.handler.defer(unique, reply);
                        return false;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a request cannot wait");
                        self.service.give_up(unique, &mut self.queue.exchange().1)
                    }
                }
            }
        };
        if let Some(aside) = self.member.next() {
            if let Err(error) = self.queue.send_and_resume(length, aside) {
                tracing::error!(%error, "the kernel refused a reply");
            }
            return true;
        }
        // Before the reply: whoever gets it may ask again at once, and this worker is as good as waiting.
        waiting.join();
        if let Some(yielder) = &self.yielder {
            // A caller that is alone stays here anyway while the others are kept awake.
            yielder.replies(!shared.awake.keeps());
        }
        send(&mut self.queue, length);
        false
    }

    /// Requests that came while the queue had no entry are had looked for.
    fn feed(&mut self, shared: &Shared<H>) {
        if self.queue.starves() {
            stir(shared, &self.queue, self.service.processor);
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
