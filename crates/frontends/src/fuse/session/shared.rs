//! The state that the threads of a session share, and requests for more workers.

use super::handler::Handler;
use super::idle_workers::IdleWorkers;
use super::shares::WorkerShares;
use crate::fuse::interrupts::Interrupts;
use crate::fuse::protocol::request::RequestLayout;
use crate::fuse::reporting::rate_limit::LogRateLimit;
use crate::fuse::reporting::statistics::Statistics;
use crate::fuse::scheduling::budget::max_workers;
use crate::fuse::scheduling::sched_idle::RequestRate;
use crate::fuse::scheduling::scheduler::Scheduler;
use crate::fuse::transport::device::Device;
use crate::fuse::transport::uring::{Reserve, RingEntry};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

pub(crate) struct Shared<H: Handler> {
    pub(crate) device: Arc<Device>,
    pub(crate) mount_point: PathBuf,
    pub(crate) handler: Arc<H>,
    pub(crate) layout: RequestLayout,
    /// The kernel uses the writeback cache.
    pub(crate) writes_back: bool,
    pub(crate) message_bytes_max: usize,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) scheduler: Scheduler,
    /// The first lane is that of the device.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) interrupts: Interrupts,
    pub(crate) shares: WorkerShares,
    /// Workers that exist or are being started.
    pub(crate) workers: Mutex<usize>,
    pub(crate) last_worker_ended: Condvar,
    pub(crate) starter: Sender<StartRequest>,
    /// For the lanes of CPUs.
    pub(crate) reserve: OnceLock<Reserve>,
    pub(crate) no_worker_log: LogRateLimit,
}

impl<H: Handler> Shared<H> {
    /// Logs the lack of a worker, rate-limited: under a limit this would be logged at every request.
    pub(crate) fn log_no_worker(&self, error: &dyn std::fmt::Display) {
        if self.no_worker_log.may_log() {
            tracing::warn!("no further worker thread ({error}); requests may wait for slower ones");
        }
    }
}

/// A source of requests, and the workers that take them.
pub(crate) struct Lane {
    /// The CPU whose callers' requests arrive here through io_uring; `None` for requests that arrive through the device.
    pub(crate) cpu: Option<u16>,
    pub(crate) idle_workers: IdleWorkers,
    pub(crate) request_rate: RequestRate,
}

impl Lane {
    pub(crate) fn new(cpu: Option<u16>) -> Lane {
        Lane { cpu, idle_workers: IdleWorkers::default(), request_rate: RequestRate::default() }
    }
}

/// A request to start a worker.
pub(crate) struct StartRequest {
    /// Index of the worker's lane.
    pub(crate) lane: usize,
    /// The channel that reports whether the worker could be started, if somebody waits for that.
    pub(crate) result_sender: Option<Sender<std::io::Result<()>>>,
    /// An entry with a request, which the worker is to take over.
    pub(crate) entry: Option<Box<RingEntry>>,
}

impl StartRequest {
    /// Requests one more worker of a lane.
    pub(crate) fn another(lane: usize) -> StartRequest {
        StartRequest { lane, result_sender: None, entry: None }
    }
}

/// Starts one more worker. It counts as waiting from here on, so that two requests in quick succession do not both start one.
pub(crate) fn start_worker<H: Handler>(
    shared: &Arc<Shared<H>>,
    start: StartRequest,
) -> Result<(), (&'static str, StartRequest)> {
    let mut workers = shared.workers.lock().unwrap_or_else(PoisonError::into_inner);
    if *workers >= max_workers() {
        return Err(("as many as allowed are busy", start));
    }
    *workers += 1;
    shared.shares.workers(*workers);
    shared.lanes[start.lane].idle_workers.add();
    // The starter lives as long as any worker.
    shared.starter.send(start).map_err(|unsent| ("the session has ended", unsent.0))
}
