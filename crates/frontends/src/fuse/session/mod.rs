//! The session: worker threads that take requests, have them served, and send the replies.
//!
//! Requests arrive in lanes: one is the device, and with io_uring there is one per CPU. Each worker serves one request at a
//! time, of one lane, on a queue of its own. Whenever a worker takes a request and no other worker of the lane is left
//! waiting, one more is started, so that a request never waits for a slower one; workers that find enough others idle end,
//! those of a ring after a delay. A request that has to wait for something else occupies no worker, see [`super::transport::deferred`].

mod handler;
mod handshake;
mod idle_workers;
mod serving;
mod shared;
mod shares;
mod starting;
mod worker;

use super::interrupts::Interrupts;
use super::protocol::negotiation::Negotiated;
use super::protocol::request::RequestLayout;
use super::protocol::wire;
use super::reporting::rate_limit::LogRateLimit;
use super::reporting::statistics::Statistics;
use super::scheduling::budget::max_workers;
use super::scheduling::scheduler::Scheduler;
use super::transport::device::Device;
pub(crate) use handler::{Handler, Outcome};
pub(crate) use handshake::{SessionError, handshake};
use shared::{Lane, Shared};
use shares::WorkerShares;
use starting::{cpus, decline_uring, run_starter, start_device, start_lanes, start_reserve};
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A running session.
pub(crate) struct Session<H: Handler> {
    shared: Arc<Shared<H>>,
    uring: std::io::Result<()>,
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
        let queues = if negotiated.has(wire::init::OVER_IO_URING) { cpus() } else { 0 };
        let shared = Arc::new(Shared {
            device,
            mount_point: mount_point.to_owned(),
            handler,
            writes_back: negotiated.has(wire::init::WRITEBACK_CACHE),
            layout: RequestLayout { setxattr_long: negotiated.has(wire::init::SETXATTR_EXT) },
            message_bytes_max: negotiated.max_write as usize,
            statistics,
            scheduler: Scheduler::new(queues > 0, stay_awake),
            lanes: std::iter::once(None).chain((0..queues).map(Some)).map(Lane::new).collect(),
            interrupts: Interrupts::default(),
            shares: WorkerShares::new(max_workers(), 1 + usize::from(queues)),
            workers: Mutex::new(0),
            last_worker_ended: Condvar::new(),
            starter,
            reserve: OnceLock::new(),
            no_worker_log: LogRateLimit::default(),
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

    /// Returns whether the CPUs have queues of their own, if that was negotiated.
    ///
    /// # Errors
    /// Fails if they could not be set up: all requests then come through the device.
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

    /// Waits as [`Session::wait`], with a timeout; returns whether the session has ended.
    pub(crate) fn wait_timeout(&self, timeout: Duration) -> bool {
        let workers = self.lock_workers();
        let (count, _) = self
            .shared
            .last_worker_ended
            .wait_timeout_while(workers, timeout, |count| *count > 0)
            .unwrap_or_else(PoisonError::into_inner);
        *count == 0
    }

    /// Returns the current number of worker threads.
    pub(crate) fn workers(&self) -> usize {
        *self.lock_workers()
    }

    fn lock_workers(&self) -> std::sync::MutexGuard<'_, usize> {
        self.shared.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
