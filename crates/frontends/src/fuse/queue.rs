//! A queue of requests: what every transport gives to a worker.

use super::deferred::DeferredReply;
use super::device::Connection;
use super::reply::Reply;
use super::uring::Entry;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// One stream of requests: what a worker thread reads and answers. It has the memory that requests come in and replies
/// are built in. A reply must go to the queue that its request came from; notifications belong to no queue and go to the
/// [`Device`](super::device::Device).
pub(crate) trait Queue {
    /// Waits for the next request; if it `may_idle`, not for longer than the transport finds worth the while.
    fn receive(&mut self, may_idle: bool) -> Received;

    /// The request received last, and an empty reply to it.
    fn exchange(&mut self) -> (&[u8], Reply<'_>);

    /// Sends the reply that was built, of so many bytes with its header; `None` where the kernel expects none. `Ok` also
    /// if the kernel gave up the request meanwhile.
    fn send(&mut self, reply: Option<usize>) -> io::Result<()>;

    /// Leaves the request received last unanswered for now: its reply is sent through the result, by any thread. This queue
    /// goes on with other requests.
    ///
    /// # Errors
    /// Where there is no memory to go on with. Then it has to be answered here.
    fn defer(&mut self, unique: u64) -> io::Result<DeferredReply>;

    /// Leaves the request received last unserved for now, for a queue of the same lane to take. This one goes on with others.
    ///
    /// # Errors
    /// As [`Queue::defer`].
    fn set_aside(&mut self) -> io::Result<Aside>;

    /// Sends the reply that was built, as [`Queue::send`], and takes a request that was set aside as the one received last.
    fn send_and_resume(&mut self, reply: Option<usize>, aside: Aside) -> io::Result<()>;

    /// As [`Queue::defer`], and takes a request that was set aside as the one received last.
    fn defer_and_resume(&mut self, unique: u64, aside: Aside) -> DeferredReply;

    /// Whether requests may wait in the kernel that it gives to this queue only once it is had to, since it was last asked.
    fn starves(&mut self) -> bool {
        false
    }

    /// Has the kernel look for requests that wait: whether it will.
    fn fetch(&self) -> bool {
        true
    }

    /// After [`Received::Idle`]: has one of the workers told that it may end. Whether one will be.
    fn idle(&mut self) -> bool {
        false
    }

    /// After [`Received::MayEnd`]: goes on.
    fn decline(&mut self) {}

    /// After [`Received::MayEnd`]: the thread takes no request any more.
    fn end(self);
}

/// A request that is to be served later.
pub(crate) enum Aside {
    /// One that was read from this descriptor.
    Message(Box<[u8]>, Arc<Connection>),
    /// One that stays in its entry.
    Entry(Box<Entry>),
}

impl Aside {
    /// The memory that it takes, in bytes; none for what an entry has anyway.
    pub(crate) fn occupied_bytes(&self) -> usize {
        match self {
            Aside::Message(message, _) => message.len(),
            Aside::Entry(_) => 0,
        }
    }
}

/// What came of waiting for a request.
#[derive(Debug)]
pub(crate) enum Received {
    /// A request.
    Request,
    /// None for some time.
    Idle,
    /// Workers are idle, and this one may end if there are enough.
    MayEnd,
    /// Unmounted, or the connection was aborted: no request will come any more.
    Closed,
    /// The device failed otherwise.
    Failed(Errno),
}
