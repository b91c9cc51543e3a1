//! Serving one request: decodes it, has it handled, counts it, and completes its reply.

use super::handler::{Handler, Outcome};
use super::shared::Shared;
use crate::fuse::interrupts::CurrentRequest;
use crate::fuse::protocol::reply::{Reply, is_valid_reply_error};
use crate::fuse::protocol::request::{DecodeError, Operation, Request, decode};
use crate::fuse::protocol::wire::{InHeader, Opcode};
use crate::fuse::reporting::statistics::{CounterSlot, FRONT_END, REQUESTS_PER_SAMPLE};
use crate::fuse::reporting::trace;
use crate::fuse::scheduling::scheduler::ScheduledWorker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use vnode::profile;
use zerocopy::FromBytes;

/// The state that a worker needs to have requests served.
pub(crate) struct Service<'a, H: Handler> {
    pub(crate) shared: &'a Shared<H>,
    /// The worker's CPU, if it stays on one.
    pub(crate) cpu: Option<u16>,
    pub(crate) scheduled: ScheduledWorker<'a>,
    pub(crate) counters: &'a CounterSlot,
    /// The request that it serves, by which interrupts find it.
    pub(crate) current_request: CurrentRequest<'a>,
    /// Number of requests so far.
    pub(crate) requests: u32,
}

/// The result of serving a request.
pub(crate) enum ServeResult {
    /// The length of the reply in bytes, if one is due.
    Now(Option<usize>),
    /// The request with this unique is answered later.
    Deferred(u64),
}

impl<H: Handler> Service<'_, H> {
    /// Serves one request.
    pub(crate) fn serve(&mut self, message: &[u8], reply: &mut Reply<'_>) -> ServeResult {
        let started = Instant::now();
        let mut request = match decode(message, self.shared.layout) {
            Ok(request) => request,
            Err(error) => {
                tracing::warn!("{error}");
                return ServeResult::Now(match error {
                    DecodeError::Header { .. } => None,
                    DecodeError::UnknownOpcode { unique, .. } => Some(reply.finish_error(unique, libc::ENOSYS)),
                    DecodeError::Arguments { unique, .. } => Some(reply.finish_error(unique, libc::EINVAL)),
                });
            }
        };
        self.scheduled.request(request.pid, message.len());
        let trace = trace::start(&request);
        if let Operation::Interrupt { unique } = request.operation {
            // Before the handler checks its waits: a request about to wait either sees the interrupt or is seen by it.
            self.shared.interrupts.interrupt(unique);
        }
        request.cancellation = self.current_request.begin(&request);
        let outcome = self.handle(&request, reply);
        self.current_request.end();
        self.scheduled.served();
        self.counters.count(request.opcode, matches!(outcome, Outcome::Failed(_)), started.elapsed());
        if let Some(trace) = trace {
            trace.finish(outcome, reply);
        }
        ServeResult::Now(match outcome {
            Outcome::Done => Some(reply.finish(request.unique)),
            Outcome::Failed(errno) => Some(reply.finish_error(request.unique, answerable(&request, errno))),
            Outcome::NoReply => None,
            Outcome::Deferred => return ServeResult::Deferred(request.unique),
        })
    }

    /// Answers a request at once that was to be answered later.
    pub(crate) fn give_up(&self, unique: u64, reply: &mut Reply<'_>) -> Option<usize> {
        match self.shared.handler.give_up(unique) {
            Outcome::Failed(errno) => Some(reply.finish_error(unique, errno)),
            _ => Some(reply.finish(unique)),
        }
    }

    /// Handles a request; one in many is sampled.
    fn handle(&mut self, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome {
        let mut handle = || handle_unwinding(&*self.shared.handler, request, reply);
        let is_sampled = self.requests.is_multiple_of(REQUESTS_PER_SAMPLE);
        self.requests = self.requests.wrapping_add(1);
        if !is_sampled {
            return handle();
        }
        let (outcome, parts) = profile::watch(FRONT_END, handle);
        self.counters.count_parts(&parts);
        outcome
    }
}

/// Builds the reply to a request for which there is neither a worker nor memory to wait in; returns its length, if one is due.
pub(crate) fn refuse(message: &[u8], reply: &mut Reply<'_>) -> Option<usize> {
    let (header, _) = InHeader::read_from_prefix(message).ok()?;
    tracing::debug!(uid = header.uid, "a request is refused: its user keeps its share of the workers busy");
    Some(reply.finish_error(header.unique, libc::ENOMEM))
}

/// Returns the error that the caller gets. The kernel accepts no reply with a kernel-internal number, such as ERESTARTSYS, and
/// the caller would wait forever: EIO replaces it.
fn answerable(request: &Request<'_>, errno: i32) -> i32 {
    if is_valid_reply_error(errno) {
        return errno;
    }
    tracing::error!(operation = %trace::describe(request), errno, "a layer or base answered no error of errno(3): EIO");
    libc::EIO
}

/// Handles a request such that a panic in a layer fails only this request.
fn handle_unwinding<H: Handler>(handler: &H, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome {
    let handle = || vnode::request::handle(|| handler.handle(request, reply));
    catch_unwind(AssertUnwindSafe(handle)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        tracing::error!(operation = %trace::describe(request), message, "a request panicked and fails with EIO");
        match request.opcode {
            Opcode::Forget | Opcode::BatchForget => Outcome::NoReply,
            _ => Outcome::Failed(libc::EIO),
        }
    })
}
