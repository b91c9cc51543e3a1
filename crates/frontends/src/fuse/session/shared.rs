//! The state that the threads of a session share, and requests for more workers.

use super::handler::Handler;
use super::shares::Shares;
use super::waiting::Waiting;
use crate::fuse::interrupts::Interrupts;
use crate::fuse::protocol::request::Layout;
use crate::fuse::reporting::rate_limit::Seldom;
use crate::fuse::reporting::statistics::Statistics;
use crate::fuse::scheduling::affinity::Locality;
use crate::fuse::scheduling::budget::workers_max;
use crate::fuse::scheduling::idle_prevention::Awake;
use crate::fuse::scheduling::sched_idle::{Pace, Yielding};
use crate::fuse::transport::device::Device;
use crate::fuse::transport::uring::{Entry, Reserve};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

pub(crate) struct Shared<H: Handler> {
    pub(crate) device: Arc<Device>,
    pub(crate) mount_point: PathBuf,
    pub(crate) handler: Arc<H>,
    pub(crate) layout: Layout,
    /// The kernel uses the writeback cache.
    pub(crate) writes_back: bool,
    pub(crate) message_bytes_max: usize,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) locality: Locality,
    pub(crate) awake: Awake,
    /// For the workers that have a CPU.
    pub(crate) yielding: Option<Yielding>,
    /// The first lane is that of the device.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) interrupts: Interrupts,
    pub(crate) shares: Shares,
    /// Workers that exist or are being started.
    pub(crate) workers: Mutex<usize>,
    pub(crate) last_worker_ended: Condvar,
    pub(crate) starter: Sender<Start>,
    /// For the lanes of CPUs.
    pub(crate) reserve: OnceLock<Reserve>,
    pub(crate) no_worker: Seldom,
}

impl<H: Handler> Shared<H> {
    /// Logs the lack of a worker, rate-limited: under a limit this would be logged at every request.
    pub(crate) fn tell_of_no_worker(&self, error: &dyn std::fmt::Display) {
        if self.no_worker.may_say() {
            tracing::warn!("no further worker thread ({error}); requests may wait for slower ones");
        }
    }
}

/// A source of requests, and the workers that take them.
pub(crate) struct Lane {
    /// The CPU whose callers' requests arrive here through io_uring; `None` for requests that arrive through the device.
    pub(crate) processor: Option<u16>,
    pub(crate) waiting: Waiting,
    pub(crate) pace: Pace,
}

impl Lane {
    pub(crate) fn new(processor: Option<u16>) -> Lane {
        Lane { processor, waiting: Waiting::default(), pace: Pace::default() }
    }
}

/// A request to start a worker.
pub(crate) struct Start {
    /// Index of the worker's lane.
    pub(crate) lane: usize,
    /// The channel that reports whether the worker could be started, if somebody waits for that.
    pub(crate) told: Option<Sender<std::io::Result<()>>>,
    /// An entry with a request, which the worker is to take over.
    pub(crate) entry: Option<Box<Entry>>,
}

impl Start {
    /// Requests one more worker of a lane.
    pub(crate) fn another(lane: usize) -> Start {
        Start { lane, told: None, entry: None }
    }
}

/// Starts one more worker. It counts as waiting from here on, so that two requests in quick succession do not both start one.
pub(crate) fn start_worker<H: Handler>(shared: &Arc<Shared<H>>, start: Start) -> Result<(), (&'static str, Start)> {
    let mut workers = shared.workers.lock().unwrap_or_else(PoisonError::into_inner);
    if *workers >= workers_max() {
        return Err(("as many as allowed are busy", start));
    }
    *workers += 1;
    shared.shares.workers(*workers);
    shared.lanes[start.lane].waiting.join();
    // The starter lives as long as any worker.
    shared.starter.send(start).map_err(|unsent| ("the session has ended", unsent.0))
}
