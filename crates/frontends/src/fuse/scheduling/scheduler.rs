//! The scheduling of a session's workers: each reports its requests and replies, and the three mechanisms act on them.

use std::cell::Cell;
use std::time::Duration;

use super::affinity::{CpuAffinity, PinnedWorker};
use super::idle_prevention::IdlePrevention;
use super::sched_idle::{HandOffWorker, RequestRate, SchedIdleHandOff};

/// The scheduling of all workers of a session.
pub(crate) struct Scheduler {
    affinity: CpuAffinity,
    idle_prevention: IdlePrevention,
    /// For the workers that have a CPU.
    hand_off: Option<SchedIdleHandOff>,
}

impl Scheduler {
    /// Starts scheduling workers, of which some have a CPU of their own if `has_cpu_queues`. CPUs are kept awake for a single caller
    /// for `stay_awake` after its last request.
    pub(crate) fn new(has_cpu_queues: bool, stay_awake: Duration) -> Scheduler {
        let hand_off = has_cpu_queues.then(SchedIdleHandOff::new).flatten();
        // A caller that sends many requests is identified by them; workers of the device would follow a caller that leaves
        // them.
        let affinity =
            if hand_off.is_some() || !stay_awake.is_zero() { CpuAffinity::new() } else { CpuAffinity::disabled() };
        Scheduler { idle_prevention: IdlePrevention::new(stay_awake, affinity.allowed()), affinity, hand_off }
    }

    /// Adds the calling thread as a worker of a lane, until the result is dropped: of that of a CPU, on which it stays, or of
    /// the device.
    pub(crate) fn join<'a>(&'a self, cpu: Option<u16>, request_rate: &'a RequestRate) -> ScheduledWorker<'a> {
        ScheduledWorker {
            scheduler: self,
            cpu,
            keeps_awake: Cell::new(false),
            _pinned: cpu.is_none().then(|| self.affinity.join()),
            hand_off: cpu.and(self.hand_off.as_ref()).map(|hand_off| hand_off.join(request_rate)),
        }
    }
}

/// A worker that is scheduled.
pub(crate) struct ScheduledWorker<'a> {
    scheduler: &'a Scheduler,
    cpu: Option<u16>,
    /// Whether CPUs are kept awake for the request that it serves.
    keeps_awake: Cell<bool>,
    _pinned: Option<PinnedWorker<'a>>,
    hand_off: Option<HandOffWorker<'a>>,
}

impl ScheduledWorker<'_> {
    /// Records that the worker has stopped waiting: for a request, or in vain.
    pub(crate) fn resume(&self) {
        if let Some(hand_off) = &self.hand_off {
            hand_off.record_request(self.scheduler.affinity.has_single_caller());
        }
    }

    /// Records a request that is about to be served. `caller` is its thread, or 0 for requests for which nobody waits.
    pub(crate) fn request(&self, caller: u32, message_bytes: usize) {
        let caller_cpu = self.scheduler.affinity.request(caller, message_bytes, self.cpu);
        self.keeps_awake.set(self.scheduler.idle_prevention.request(caller_cpu));
    }

    /// Records that the request has been served, whether a reply is due now, later or never.
    pub(crate) fn served(&self) {
        if self.keeps_awake.take() {
            self.scheduler.idle_prevention.served();
        }
    }

    /// Records a reply that is about to be sent, if one is due, after which the worker waits for a request if it `goes_idle`.
    pub(crate) fn reply(&self, message_bytes: Option<usize>, goes_idle: bool) {
        let Scheduler { affinity, idle_prevention, .. } = self.scheduler;
        affinity.reply(message_bytes.unwrap_or(0));
        if let Some(hand_off) = self.hand_off.as_ref().filter(|_| goes_idle) {
            // A single caller stays here anyway while the other CPUs are kept awake.
            hand_off.prepare_reply(!idle_prevention.is_active());
        }
    }
}
