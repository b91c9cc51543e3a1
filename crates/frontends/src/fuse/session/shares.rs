//! Fair shares of the workers: a user whose requests keep many workers busy leaves some for others. Requests beyond its share
//! are set aside, without a worker, until one of its requests is done.
//!
//! A user may keep as many workers busy as remain below the maximum after that, just as with descriptors: half of all if
//! nobody else keeps any. The superuser and the user that runs the server may keep all. Nothing is counted while there are few
//! workers: each only records the user for which it works.

use crate::fuse::protocol::wire::{InHeader, Opcode};
use crate::fuse::transport::queue::Aside;
use crate::fuse::transport::uring::Entry;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::FromBytes;

/// Maximum number of bytes of requests that the device's lane sets aside: those of rings stay in their entries.
const ASIDE_BYTES_MAX: usize = 64 << 20;

/// The current work of one worker.
struct Post {
    lane: usize,
    /// The user for which it works, plus 1; 0 for none, or for one that has no share.
    user: AtomicU64,
}

/// The workers with the users for which they work.
pub(crate) struct Shares {
    maximum: usize,
    server: u32,
    /// Set while there are so many workers that shares count.
    is_crowded: AtomicBool,
    posts: Mutex<Vec<Arc<Post>>>,
    lanes: Vec<LaneAside>,
    aside_bytes: AtomicUsize,
}

/// The requests that a lane has set aside.
#[derive(Default)]
struct LaneAside {
    /// There may be requests set aside.
    has_any: AtomicBool,
    requests: Mutex<VecDeque<(u32, Aside)>>,
}

/// The decision on a request.
pub(crate) enum Admittance {
    /// It is served now.
    Served,
    /// It has been set aside.
    Aside,
    /// It can neither be served nor be set aside.
    Refused,
}

impl Shares {
    /// Creates the shares, with the maximum number of workers and the number of lanes.
    pub(crate) fn new(maximum: usize, lanes: usize) -> Shares {
        Shares {
            maximum,
            server: rustix::process::geteuid().as_raw(),
            is_crowded: AtomicBool::new(false),
            posts: Mutex::default(),
            lanes: (0..lanes).map(|_| LaneAside::default()).collect(),
            aside_bytes: AtomicUsize::new(0),
        }
    }

    /// Records the current number of workers.
    pub(crate) fn workers(&self, count: usize) {
        self.is_crowded.store(count > self.maximum / 2, Ordering::Relaxed);
    }

    /// Adds a worker of a lane.
    pub(crate) fn join(&self, lane: usize) -> Member<'_> {
        let post = Arc::new(Post { lane, user: AtomicU64::new(0) });
        self.posts().push(Arc::clone(&post));
        Member { shares: self, post }
    }

    fn admit(
        &self,
        post: &Post,
        (user, bytes): (Option<u32>, usize),
        set_aside: impl FnOnce() -> std::io::Result<Aside>,
    ) -> Admittance {
        if !self.is_crowded.load(Ordering::Relaxed) {
            post.user.store(mark(user), Ordering::SeqCst);
            return Admittance::Served;
        }
        let Some(sharer) = user else {
            post.user.store(mark(user), Ordering::SeqCst);
            return Admittance::Served;
        };
        let has_room = self.aside_bytes.load(Ordering::Relaxed) + bytes <= ASIDE_BYTES_MAX;
        let set_aside = || has_room.then(set_aside)?.ok().map(|aside| (sharer, aside));
        self.admit_to(post.lane, || self.takes(post, sharer), set_aside)
    }

    /// Sets aside a request that has no worker yet, if its user may have no further worker of the lane; otherwise returns it.
    pub(crate) fn unless_set_aside(&self, lane: usize, mut entry: Box<Entry>) -> Option<Box<Entry>> {
        if !self.is_crowded.load(Ordering::Relaxed) {
            return Some(entry);
        }
        let Some(sharer) = self.sharer(entry.exchange().0) else { return Some(entry) };
        let mut entry = Some(entry);
        let set_aside = || entry.take().map(|entry| (sharer, Aside::Entry(entry)));
        self.admit_to(lane, || self.has_left(&self.posts(), lane, sharer), set_aside);
        entry
    }

    fn admit_to(
        &self,
        lane: usize,
        may_serve: impl FnOnce() -> bool,
        set_aside: impl FnOnce() -> Option<(u32, Aside)>,
    ) -> Admittance {
        let lane = &self.lanes[lane];
        let mut requests = lane.requests();
        // Before the decision: a worker that finishes a request in the meantime either looks here or has not been counted.
        lane.has_any.store(true, Ordering::SeqCst);
        let admittance = match may_serve() {
            true => Admittance::Served,
            false => match set_aside() {
                Some((user, aside)) => {
                    self.aside_bytes.fetch_add(aside.occupied_bytes(), Ordering::Relaxed);
                    requests.push_back((user, aside));
                    Admittance::Aside
                }
                None => Admittance::Refused,
            },
        };
        lane.has_any.store(!requests.is_empty(), Ordering::SeqCst);
        admittance
    }

    fn next(&self, post: &Post) -> Option<Aside> {
        post.user.store(0, Ordering::SeqCst);
        let lane = &self.lanes[post.lane];
        if !lane.has_any.load(Ordering::SeqCst) {
            return None;
        }
        let mut requests = lane.requests();
        let place = requests.iter().position(|(user, _)| self.takes(post, *user));
        let next = place.and_then(|place| requests.remove(place)).map(|(_, aside)| aside);
        lane.has_any.store(!requests.is_empty(), Ordering::SeqCst);
        self.aside_bytes.fetch_sub(next.as_ref().map_or(0, Aside::occupied_bytes), Ordering::Relaxed);
        next
    }

    /// Records that a worker works for a user, if one more may do so now.
    fn takes(&self, post: &Post, user: u32) -> bool {
        let posts = self.posts();
        let may = self.has_left(&posts, post.lane, user);
        if may {
            post.user.store(mark(Some(user)), Ordering::SeqCst);
        }
        may
    }

    /// Returns whether one more worker of a lane may work for a user now. At least one per lane may: requests set aside wait
    /// for that one.
    fn has_left(&self, posts: &[Arc<Post>], lane: usize, user: u32) -> bool {
        let is_own = |other: &&Arc<Post>| other.user.load(Ordering::SeqCst) == mark(Some(user));
        let busy = posts.iter().filter(|other| other.user.load(Ordering::SeqCst) != 0).count();
        let own = posts.iter().filter(is_own).count();
        !self.is_crowded.load(Ordering::Relaxed)
            || own < self.maximum.saturating_sub(busy)
            || !posts.iter().filter(is_own).any(|other| other.lane == lane)
    }

    /// Returns the user in whose share a request is counted; `None` if it has to be served at once, or its user may have all
    /// workers.
    fn sharer(&self, message: &[u8]) -> Option<u32> {
        const AT_ONCE: [u32; 5] = [
            Opcode::Forget as u32,
            Opcode::BatchForget as u32,
            Opcode::Interrupt as u32,
            Opcode::Init as u32,
            Opcode::Destroy as u32,
        ];
        let (header, _) = InHeader::read_from_prefix(message).ok()?;
        let has_share = header.uid != 0 && header.uid != self.server && !AT_ONCE.contains(&header.opcode);
        has_share.then_some(header.uid)
    }

    fn posts(&self) -> MutexGuard<'_, Vec<Arc<Post>>> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that takes part in the shares.
pub(crate) struct Member<'a> {
    shares: &'a Shares,
    post: Arc<Post>,
}

impl Member<'_> {
    /// Returns the user in whose share a request is counted, if any, and the request's length in bytes.
    pub(crate) fn sharer(&self, message: &[u8]) -> (Option<u32>, usize) {
        (self.shares.sharer(message), message.len())
    }

    /// Decides on a request that was received. It is counted for its user, or, if no further worker is left for that user, set
    /// aside by `set_aside`.
    pub(crate) fn admit(
        &self,
        sharer: (Option<u32>, usize),
        set_aside: impl FnOnce() -> std::io::Result<Aside>,
    ) -> Admittance {
        self.shares.admit(&self.post, sharer, set_aside)
    }

    /// Ends the current request; returns the one with which the worker continues, out of those set aside.
    pub(crate) fn next(&self) -> Option<Aside> {
        self.shares.next(&self.post)
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.shares.posts().retain(|other| !Arc::ptr_eq(other, &self.post));
    }
}

impl LaneAside {
    fn requests(&self) -> MutexGuard<'_, VecDeque<(u32, Aside)>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mark(user: Option<u32>) -> u64 {
    user.map_or(0, |user| u64::from(user) + 1)
}
