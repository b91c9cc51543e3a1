//! What serves requests, as the session sees it.

use super::super::deferred::DeferredReply;
use super::super::reply::Reply;
use super::super::request::Request;

/// What serves the requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Serves one request: results go into `reply`, which is empty. Blocking is fine, panicking is survived.
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome;

    /// The reply that a request with [`Outcome::Later`] is to get.
    fn defer(&self, unique: u64, reply: DeferredReply);

    /// A request with [`Outcome::Later`] has to be answered at once after all.
    fn give_up(&self, unique: u64) -> Outcome;

    /// A regular file that the kernel knows, if there is one.
    fn some_file(&self) -> Option<u64>;

    /// The connection has ended and the last request is served: whatever the kernel had open is to be let go, since an
    /// unmount need not send every release.
    fn closed(&self);
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reply holds the results.
    Done,
    /// It failed with this errno.
    Failed(i32),
    /// The kernel expects no answer.
    NoReply,
    /// It waits, and is answered later through what [`Handler::defer`] gets.
    Later,
}
