//! The queue of requests: the interface of a transport to a worker.

use super::deferred::DeferredReply;
use super::device::Connection;
use super::uring::RingEntry;
use crate::fuse::protocol::reply::Reply;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// One stream of requests, read and answered by a worker thread. It owns the memory for incoming requests and for replies. A
/// reply must go to the queue from which its request came; notifications belong to no queue and go to the
/// [`Device`](super::device::Device).
pub(crate) trait Queue {
    /// Waits for the next request; if it `may_idle`, no longer than the transport considers worthwhile.
    fn receive(&mut self, may_idle: bool) -> Received;

    /// Returns the last request received, and an empty reply to it.
    fn exchange(&mut self) -> (&[u8], Reply<'_>);

    /// Sends the reply that was built, of this length in bytes including the header; `None` if the kernel expects none.
    /// Returns `Ok` also if the kernel has abandoned the request meanwhile.
    fn send(&mut self, reply: Option<usize>) -> io::Result<()>;

    /// Leaves the last request unanswered for now: its reply is sent through the result, by any thread. This queue continues
    /// with other requests.
    ///
    /// # Errors
    /// Fails if there is no memory to continue. The request then has to be answered here.
    fn defer(&mut self, unique: u64) -> io::Result<DeferredReply>;

    /// Leaves the last request unserved for now, for a queue of the same lane to take. This one continues with others.
    ///
    /// # Errors
    /// As [`Queue::defer`].
    fn set_aside(&mut self) -> io::Result<SetAsideRequest>;

    /// Sends the reply that was built, as [`Queue::send`], and resumes a request that was set aside as the last one received.
    fn send_and_resume(&mut self, reply: Option<usize>, aside: SetAsideRequest) -> io::Result<()>;

    /// Defers the reply as [`Queue::defer`], and resumes a request that was set aside as the last one received.
    fn defer_and_resume(&mut self, unique: u64, aside: SetAsideRequest) -> DeferredReply;

    /// Returns whether, since the last call, requests may be waiting in the kernel that it gives to this queue only on demand.
    fn may_have_missed_requests(&mut self) -> bool {
        false
    }

    /// Makes the kernel look for waiting requests; returns whether it will.
    fn fetch(&self) -> bool {
        true
    }

    /// Called after [`Received::Idle`]: signals one of the workers that it may end. Returns whether one will be signalled.
    fn idle(&mut self) -> bool {
        false
    }

    /// Called after [`Received::MayEnd`]: the worker continues.
    fn decline(&mut self) {}

    /// Called after [`Received::MayEnd`]: the thread takes no more requests.
    fn end(self);
}

/// A request that is to be served later.
pub(crate) enum SetAsideRequest {
    /// A request that was read from this descriptor.
    Message(Box<[u8]>, Arc<Connection>),
    /// A request that stays in its entry.
    Entry(Box<RingEntry>),
}

impl SetAsideRequest {
    /// Returns the memory that the request occupies, in bytes; zero for an entry, whose memory exists anyway.
    pub(crate) fn occupied_bytes(&self) -> usize {
        match self {
            SetAsideRequest::Message(message, _) => message.len(),
            SetAsideRequest::Entry(_) => 0,
        }
    }
}

/// The result of waiting for a request.
#[derive(Debug)]
pub(crate) enum Received {
    /// A request.
    Request,
    /// No request for some time.
    Idle,
    /// Workers are idle, and this one may end if there are enough.
    MayEnd,
    /// Unmounted, or the connection was aborted: no more requests will come.
    Closed,
    /// The device failed for another reason.
    Failed(Errno),
}
