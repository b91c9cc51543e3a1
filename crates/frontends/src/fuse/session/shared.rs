//! What the threads of a session share, and how they ask for more workers.

use super::super::awake::Awake;
use super::super::budget::workers_max;
use super::super::device::Device;
use super::super::interrupts::Interrupts;
use super::super::locality::Locality;
use super::super::request::Layout;
use super::super::seldom::Seldom;
use super::super::statistics::Statistics;
use super::super::uring::{Entry, Reserve};
use super::super::yielding::{Pace, Yielding};
use super::handler::Handler;
use super::shares::Shares;
use super::waiting::Waiting;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

pub(super) struct Shared<H: Handler> {
    pub(super) device: Arc<Device>,
    pub(super) mount_point: PathBuf,
    pub(super) handler: Arc<H>,
    pub(super) layout: Layout,
    /// The kernel keeps what is written for a while.
    pub(super) writes_back: bool,
    pub(super) message_bytes_max: usize,
    pub(super) statistics: Arc<Statistics>,
    pub(super) locality: Locality,
    pub(super) awake: Awake,
    /// Of those that have a processor.
    pub(super) yielding: Option<Yielding>,
    /// The first is that of the device.
    pub(super) lanes: Vec<Lane>,
    pub(super) interrupts: Interrupts,
    pub(super) shares: Shares,
    /// Workers that exist or are being started.
    pub(super) workers: Mutex<usize>,
    pub(super) last_worker_ended: Condvar,
    pub(super) starter: Sender<Start>,
    /// Of those lanes that are processors'.
    pub(super) reserve: OnceLock<Reserve>,
    pub(super) no_worker: Seldom,
}

impl<H: Handler> Shared<H> {
    /// Under a limit this would be said at every request.
    pub(super) fn tell_of_no_worker(&self, error: &dyn std::fmt::Display) {
        if self.no_worker.may_say() {
            tracing::warn!("no further worker thread ({error}); requests may wait for slower ones");
        }
    }
}

/// Where requests come from, and the workers that take them.
pub(super) struct Lane {
    /// Those of callers on this processor, through io_uring; `None`: those that come through the device.
    pub(super) processor: Option<u16>,
    pub(super) waiting: Waiting,
    pub(super) pace: Pace,
}

impl Lane {
    pub(super) fn new(processor: Option<u16>) -> Lane {
        Lane { processor, waiting: Waiting::default(), pace: Pace::default() }
    }
}

/// A worker to be started.
pub(super) struct Start {
    /// Which of the lanes is its own.
    pub(super) lane: usize,
    /// Who waits to know whether it could be.
    pub(super) told: Option<Sender<std::io::Result<()>>>,
    /// An entry with a request, which it is to take over.
    pub(super) entry: Option<Box<Entry>>,
}

impl Start {
    /// One more worker of a lane.
    pub(super) fn another(lane: usize) -> Start {
        Start { lane, told: None, entry: None }
    }
}

/// Has one more worker started. It counts as waiting from here on, so that two requests in quick succession do not both
/// start one.
pub(super) fn start_worker<H: Handler>(shared: &Arc<Shared<H>>, start: Start) -> Result<(), (&'static str, Start)> {
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
