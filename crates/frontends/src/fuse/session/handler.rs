//! The handler of requests, as seen by the session.

use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::request::Request;
use crate::fuse::transport::deferred::DeferredReply;

/// Serves requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Serves one request: results go into `reply`, which is empty. It may block, and a panic does not end the session.
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome;

    /// Passes on the deferred reply of a request with [`Outcome::Deferred`].
    fn defer(&self, unique: u64, reply: DeferredReply);

    /// Ends the wait of a request with [`Outcome::Deferred`], which has to be answered at once after all.
    fn give_up(&self, unique: u64) -> Outcome;

    /// Returns a regular file that the kernel knows, if there is one.
    fn any_regular_file(&self) -> Option<u64>;

    /// Releases what the kernel had open, since an unmount need not send every release. Called when the connection has ended
    /// and the last request is served.
    fn closed(&self);
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reply holds the results.
    Done,
    /// It failed with this errno.
    Failed(i32),
    /// The kernel expects no reply.
    NoReply,
    /// It waits, and is answered later through the reply passed to [`Handler::defer`].
    Deferred,
}
