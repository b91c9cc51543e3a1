//! Fair shares of the workers: a user whose requests keep many workers busy leaves some for others. Requests beyond its share
//! are set aside, without a worker, until one of its requests is done.
//!
//! A user may keep as many workers busy as remain below the maximum after that, just as with descriptors: half of all if
//! nobody else keeps any. The superuser and the user that runs the server may keep all. Nothing is counted while there are few
//! workers: each only records the user for which it works.

use crate::fuse::protocol::wire::{InHeader, Opcode};
use crate::fuse::transport::queue::SetAsideRequest;
use crate::fuse::transport::uring::RingEntry;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::FromBytes;

/// Maximum number of bytes of requests that the device's lane sets aside: those of rings stay in their entries.
const ASIDE_BYTES_MAX: usize = 64 << 20;

/// The current work of one worker.
struct WorkerAssignment {
    lane: usize,
    /// The user for which it works, plus 1; 0 for none, or for one that has no share.
    user: AtomicU64,
}

/// The workers with the users for which they work.
pub(crate) struct WorkerShares {
    maximum: usize,
    server: u32,
    /// Set while there are so many workers that shares count.
    is_share_limited: AtomicBool,
    assignments: Mutex<Vec<Arc<WorkerAssignment>>>,
    lanes: Vec<LaneBacklog>,
    aside_bytes: AtomicUsize,
}

/// The requests that a lane has set aside.
#[derive(Default)]
struct LaneBacklog {
    /// There may be requests set aside.
    has_any: AtomicBool,
    requests: Mutex<VecDeque<(u32, SetAsideRequest)>>,
}

/// The decision on a request.
pub(crate) enum AdmissionDecision {
    /// It is served now.
    Served,
    /// It has been set aside.
    Aside,
    /// It can neither be served nor be set aside.
    Refused,
}

impl WorkerShares {
    /// Creates the shares, with the maximum number of workers and the number of lanes.
    pub(crate) fn new(maximum: usize, lanes: usize) -> WorkerShares {
        WorkerShares {
            maximum,
            server: rustix::process::geteuid().as_raw(),
            is_share_limited: AtomicBool::new(false),
            assignments: Mutex::default(),
            lanes: (0..lanes).map(|_| LaneBacklog::default()).collect(),
            aside_bytes: AtomicUsize::new(0),
        }
    }

    /// Records the current number of workers.
    pub(crate) fn workers(&self, count: usize) {
        self.is_share_limited.store(count > self.maximum / 2, Ordering::Relaxed);
    }

    /// Adds a worker of a lane.
    pub(crate) fn join(&self, lane: usize) -> ShareMember<'_> {
        let assignment = Arc::new(WorkerAssignment { lane, user: AtomicU64::new(0) });
        self.assignments().push(Arc::clone(&assignment));
        ShareMember { shares: self, assignment }
    }

    fn admit(
        &self,
        assignment: &WorkerAssignment,
        (user, bytes): (Option<u32>, usize),
        set_aside: impl FnOnce() -> std::io::Result<SetAsideRequest>,
    ) -> AdmissionDecision {
        if !self.is_share_limited.load(Ordering::Relaxed) {
            assignment.user.store(encode_user(user), Ordering::SeqCst);
            return AdmissionDecision::Served;
        }
        let Some(accounted_user) = user else {
            assignment.user.store(encode_user(user), Ordering::SeqCst);
            return AdmissionDecision::Served;
        };
        let fits_limit = self.aside_bytes.load(Ordering::Relaxed) + bytes <= ASIDE_BYTES_MAX;
        let set_aside = || fits_limit.then(set_aside)?.ok().map(|aside| (accounted_user, aside));
        self.admit_to(assignment.lane, || self.try_assign(assignment, accounted_user), set_aside)
    }

    /// Sets aside a request that has no worker yet, if its user may have no further worker of the lane; otherwise returns it.
    pub(crate) fn set_aside_if_over_share(&self, lane: usize, mut entry: Box<RingEntry>) -> Option<Box<RingEntry>> {
        if !self.is_share_limited.load(Ordering::Relaxed) {
            return Some(entry);
        }
        let Some(accounted_user) = self.accounted_user(entry.exchange().0) else { return Some(entry) };
        let mut entry = Some(entry);
        let set_aside = || entry.take().map(|entry| (accounted_user, SetAsideRequest::Entry(entry)));
        self.admit_to(lane, || self.has_capacity(&self.assignments(), lane, accounted_user), set_aside);
        entry
    }

    fn admit_to(
        &self,
        lane: usize,
        may_serve: impl FnOnce() -> bool,
        set_aside: impl FnOnce() -> Option<(u32, SetAsideRequest)>,
    ) -> AdmissionDecision {
        let lane = &self.lanes[lane];
        let mut requests = lane.requests();
        // Before the decision: a worker that finishes a request in the meantime either looks here or has not been counted.
        lane.has_any.store(true, Ordering::SeqCst);
        let decision = match may_serve() {
            true => AdmissionDecision::Served,
            false => match set_aside() {
                Some((user, aside)) => {
                    self.aside_bytes.fetch_add(aside.occupied_bytes(), Ordering::Relaxed);
                    requests.push_back((user, aside));
                    AdmissionDecision::Aside
                }
                None => AdmissionDecision::Refused,
            },
        };
        lane.has_any.store(!requests.is_empty(), Ordering::SeqCst);
        decision
    }

    fn next(&self, assignment: &WorkerAssignment) -> Option<SetAsideRequest> {
        assignment.user.store(0, Ordering::SeqCst);
        let lane = &self.lanes[assignment.lane];
        if !lane.has_any.load(Ordering::SeqCst) {
            return None;
        }
        let mut requests = lane.requests();
        let position = requests.iter().position(|(user, _)| self.try_assign(assignment, *user));
        let next = position.and_then(|position| requests.remove(position)).map(|(_, aside)| aside);
        lane.has_any.store(!requests.is_empty(), Ordering::SeqCst);
        self.aside_bytes.fetch_sub(next.as_ref().map_or(0, SetAsideRequest::occupied_bytes), Ordering::Relaxed);
        next
    }

    /// Records that a worker works for a user, if one more may do so now.
    fn try_assign(&self, assignment: &WorkerAssignment, user: u32) -> bool {
        let assignments = self.assignments();
        let may = self.has_capacity(&assignments, assignment.lane, user);
        if may {
            assignment.user.store(encode_user(Some(user)), Ordering::SeqCst);
        }
        may
    }

    /// Returns whether one more worker of a lane may work for a user now. At least one per lane may: requests set aside wait
    /// for that one.
    fn has_capacity(&self, assignments: &[Arc<WorkerAssignment>], lane: usize, user: u32) -> bool {
        let is_own = |other: &&Arc<WorkerAssignment>| other.user.load(Ordering::SeqCst) == encode_user(Some(user));
        let busy = assignments.iter().filter(|other| other.user.load(Ordering::SeqCst) != 0).count();
        let own = assignments.iter().filter(is_own).count();
        !self.is_share_limited.load(Ordering::Relaxed)
            || own < self.maximum.saturating_sub(busy)
            || !assignments.iter().filter(is_own).any(|other| other.lane == lane)
    }

    /// Returns the user in whose share a request is counted; `None` if it has to be served at once, or its user may have all
    /// workers.
    fn accounted_user(&self, message: &[u8]) -> Option<u32> {
        const UNACCOUNTED_OPCODES: [u32; 5] = [
            Opcode::Forget as u32,
            Opcode::BatchForget as u32,
            Opcode::Interrupt as u32,
            Opcode::Init as u32,
            Opcode::Destroy as u32,
        ];
        let (header, _) = InHeader::read_from_prefix(message).ok()?;
        let has_share = header.uid != 0 && header.uid != self.server && !UNACCOUNTED_OPCODES.contains(&header.opcode);
        has_share.then_some(header.uid)
    }

    fn assignments(&self) -> MutexGuard<'_, Vec<Arc<WorkerAssignment>>> {
        self.assignments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that takes part in the shares.
pub(crate) struct ShareMember<'a> {
    shares: &'a WorkerShares,
    assignment: Arc<WorkerAssignment>,
}

impl ShareMember<'_> {
    /// Returns the user in whose share a request is counted, if any, and the request's length in bytes.
    pub(crate) fn accounted_user(&self, message: &[u8]) -> (Option<u32>, usize) {
        (self.shares.accounted_user(message), message.len())
    }

    /// Decides on a request that was received. It is counted for its user, or, if no further worker is left for that user, set
    /// aside by `set_aside`.
    pub(crate) fn admit(
        &self,
        accounted_user: (Option<u32>, usize),
        set_aside: impl FnOnce() -> std::io::Result<SetAsideRequest>,
    ) -> AdmissionDecision {
        self.shares.admit(&self.assignment, accounted_user, set_aside)
    }

    /// Ends the current request; returns the one with which the worker continues, out of those set aside.
    pub(crate) fn next(&self) -> Option<SetAsideRequest> {
        self.shares.next(&self.assignment)
    }
}

impl Drop for ShareMember<'_> {
    fn drop(&mut self) {
        self.shares.assignments().retain(|other| !Arc::ptr_eq(other, &self.assignment));
    }
}

impl LaneBacklog {
    fn requests(&self) -> MutexGuard<'_, VecDeque<(u32, SetAsideRequest)>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn encode_user(user: Option<u32>) -> u64 {
    user.map_or(0, |user| u64::from(user) + 1)
}
