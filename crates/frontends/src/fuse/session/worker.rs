//! A worker: takes requests of its lane, one at a time, has them served and sends the replies.

use super::handler::Handler;
use super::serving::{ServeResult, Service, refuse};
use super::shared::{Shared, StartRequest, start_worker};
use super::shares::{AdmissionDecision, ShareMember};
use crate::fuse::scheduling::affinity::single_cpu;
use crate::fuse::transport::queue::{Queue, Received};
use rustix::thread::sched_setaffinity;
use std::sync::Arc;
use std::time::Duration;

/// Delay after a failure of the device.
const FAILURE_RETRY_DELAY: Duration = Duration::from_millis(100);

pub(crate) fn run_worker<H: Handler>(shared: &Arc<Shared<H>>, lane: usize, queue: impl Queue) {
    let cpu = shared.lanes[lane].cpu;
    let scheduled = shared.scheduler.join(cpu, &shared.lanes[lane].request_rate);
    let (counters, current_request) = (shared.statistics.next_slot(), shared.interrupts.join());
    let service = Service { shared, cpu, scheduled, counters, current_request, requests: 0 };
    let mut worker = Worker { lane, queue, service, member: shared.shares.join(lane), ignores_idling: false };
    loop {
        match worker.receive(shared) {
            Step::Serve => {}
            Step::Wait => continue,
            Step::Park => return worker.queue.end(),
            Step::End => return,
        }
        if !worker.try_admit(shared) {
            continue;
        }
        // It continues with the requests that were set aside, without waiting for a new one.
        while worker.serve(shared) {}
        if cpu.is_none() && shared.lanes[lane].idle_workers.remove_if_enough() {
            return;
        }
    }
}

/// The state of a worker.
struct Worker<'a, H: Handler, Q> {
    lane: usize,
    queue: Q,
    service: Service<'a, H>,
    member: ShareMember<'a>,
    /// It stays although it was idle: no worker could be signalled to end.
    ignores_idling: bool,
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
        let idle_workers = &shared.lanes[self.lane].idle_workers;
        let received = self.queue.receive(!self.ignores_idling && idle_workers.exceeds_limit());
        self.service.scheduled.resume();
        match received {
            Received::Request => {
                self.ignores_idling = false;
                Step::Serve
            }
            Received::Idle => {
                // If no worker can be signalled now, it tries again after the next request.
                self.ignores_idling = !self.queue.idle();
                Step::Wait
            }
            Received::MayEnd if idle_workers.remove_if_enough() => Step::Park,
            Received::MayEnd => {
                self.queue.decline();
                Step::Wait
            }
            Received::Closed => {
                idle_workers.remove();
                Step::End
            }
            Received::Failed(error) => {
                // Such as a shortage of memory. Programs are waiting for their requests: try again.
                tracing::error!(%error, "reading from the FUSE device failed");
                idle_workers.remove();
                std::thread::sleep(FAILURE_RETRY_DELAY);
                idle_workers.add();
                self.fetch_waiting(shared);
                Step::Wait
            }
        }
    }

    /// Returns whether the received request is to be served now: otherwise it has been set aside, or refused, and the worker
    /// has been counted as waiting all the time.
    fn try_admit(&mut self, shared: &Arc<Shared<H>>) -> bool {
        let accounted_user = self.member.accounted_user(self.queue.exchange().0);
        match self.member.admit(accounted_user, || self.queue.set_aside()) {
            AdmissionDecision::Served => {
                if shared.lanes[self.lane].idle_workers.remove()
                    && let Err((error, _)) = start_worker(shared, StartRequest::another(self.lane))
                {
                    shared.log_no_worker(&error);
                }
                return true;
            }
            AdmissionDecision::Aside => self.fetch_waiting(shared),
            AdmissionDecision::Refused => {
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
        let idle_workers = &shared.lanes[self.lane].idle_workers;
        let (message, mut reply) = self.queue.exchange();
        let length = match self.service.serve(message, &mut reply) {
            ServeResult::Now(length) => length,
            ServeResult::Deferred(unique) => {
                if let Some(aside) = self.member.next() {
                    shared.handler.defer(unique, self.queue.defer_and_resume(unique, aside));
                    return true;
                }
                match self.queue.defer(unique) {
                    Ok(reply) => {
                        idle_workers.add();
                        self.fetch_waiting(shared);
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
            self.service.scheduled.reply(length, false);
            if let Err(error) = self.queue.send_and_resume(length, aside) {
                tracing::error!(%error, "the kernel refused a reply");
            }
            return true;
        }
        // Before the reply: its receiver may send the next request at once, and this worker is as good as waiting.
        idle_workers.add();
        self.service.scheduled.reply(length, true);
        send(&mut self.queue, length);
        false
    }

    /// Makes the kernel look for requests that came while the queue had no entry.
    fn fetch_waiting(&mut self, shared: &Shared<H>) {
        if self.queue.may_have_missed_requests() {
            trigger_fetch(shared, &self.queue, self.service.cpu);
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
pub(crate) fn trigger_fetch<H: Handler>(shared: &Shared<H>, queue: &impl Queue, cpu: Option<u16>) {
    let Some(cpu) = cpu.filter(|_| !queue.fetch()) else { return };
    let mount_point = shared.mount_point.clone();
    let query_statfs = move || {
        let _ = sched_setaffinity(None, &single_cpu(cpu.into()));
        let _ = rustix::fs::statfs(mount_point);
    };
    if let Err(error) = std::thread::Builder::new().name("fuse-stir".into()).spawn(vnode::as_server(query_statfs)) {
        tracing::warn!(%error, "requests may wait for slower ones");
    }
}
