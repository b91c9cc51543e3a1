//! A worker: takes requests of its lane, one at a time, has them served and sends the replies.

use super::handler::Handler;
use super::serving::{Served, Service, refuse};
use super::shared::{Shared, Start, start_worker};
use super::shares::{Admittance, Member};
use crate::fuse::scheduling::affinity::only;
use crate::fuse::scheduling::sched_idle::Yielder;
use crate::fuse::transport::queue::{Queue, Received};
use rustix::thread::sched_setaffinity;
use std::sync::Arc;
use std::time::Duration;

/// Delay after a failure of the device.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

pub(crate) fn work<H: Handler>(shared: &Arc<Shared<H>>, lane: usize, queue: impl Queue) {
    let processor = shared.lanes[lane].processor;
    // Other workers stay on their CPU.
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
        // It continues with the requests that were set aside, without waiting for a new one.
        while worker.serve(shared) {}
        if processor.is_none() && shared.lanes[lane].waiting.part_if_enough() {
            return;
        }
    }
}

/// The state of a worker.
struct Worker<'a, H: Handler, Q> {
    lane: usize,
    queue: Q,
    service: Service<'a, H>,
    yielder: Option<Yielder<'a>>,
    member: Member<'a>,
    /// It stays although it was idle: no worker could be signalled to end.
    keeps: bool,
}

/// The next step of a worker.
enum Step {
    /// A request has arrived.
    Serve,
    /// It waits for one.
    Wait,
    /// It ends, and leaves its queue to be parked.
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
                // If no worker can be signalled now, it tries again after the next request.
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
                // Such as a shortage of memory. Programs are waiting for their requests: try again.
                tracing::error!(%error, "reading from the FUSE device failed");
                waiting.part();
                std::thread::sleep(PAUSE_AFTER_FAILURE);
                waiting.join();
                self.feed(shared);
                Step::Wait
            }
        }
    }

    /// Returns whether the received request is to be served now: otherwise it has been set aside, or refused, and the worker
    /// has been counted as waiting all the time.
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

    /// Serves the current request, and answers it unless it has to wait; returns whether it continues with another, which had
    /// been set aside.
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
        // Before the reply: its receiver may send the next request at once, and this worker is as good as waiting.
        waiting.join();
        if let Some(yielder) = &self.yielder {
            // A single caller stays here anyway while the other CPUs are kept awake.
            yielder.replies(!shared.awake.keeps());
        }
        send(&mut self.queue, length);
        false
    }

    /// Makes the kernel look for requests that came while the queue had no entry.
    fn feed(&mut self, shared: &Shared<H>) {
        if self.queue.starves() {
            stir(shared, &self.queue, self.service.processor);
        }
    }
}

pub(crate) fn send(queue: &mut impl Queue, reply: Option<usize>) {
    if let Err(error) = queue.send(reply) {
        tracing::error!(%error, "the kernel refused a reply");
    }
}

/// Makes the kernel look for requests that came while a CPU's queue had no entry: a new entry gets only later requests, and
/// the earlier ones wait until an entry of the queue is answered. So a request is generated there. If the kernel knows no
/// suitable file, that request is a statfs, which the kernel does not cache; if the mount has been detached from its path,
/// none is generated: other requests may come then.
pub(crate) fn stir<H: Handler>(shared: &Shared<H>, queue: &impl Queue, processor: Option<u16>) {
    let Some(processor) = processor.filter(|_| !queue.fetch()) else { return };
    let mount_point = shared.mount_point.clone();
    let ask = move || {
        let _ = sched_setaffinity(None, &only(processor.into()));
        let _ = rustix::fs::statfs(mount_point);
    };
    if let Err(error) = std::thread::Builder::new().name("fuse-stir".into()).spawn(vnode::as_server(ask)) {
        tracing::warn!(%error, "requests may wait for slower ones");
    }
}
