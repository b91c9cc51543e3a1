//! Replies that are sent later, by a thread other than the one that took the request.

use super::device::{Connection, write_whole};
use super::uring::{Reserve, RingEntry};
use crate::fuse::protocol::reply::is_valid_reply_error;
use crate::fuse::protocol::wire;
use rustix::io::Errno as SystemError;
use std::os::fd::AsFd;
use std::sync::Arc;
use vnode::{Errno, Result};
use zerocopy::IntoBytes;

/// The pending reply to one request; it carries no results, only success or an error. Dropping it replies `EIO`, so that no
/// caller waits forever.
pub(crate) struct DeferredReply {
    unique: u64,
    /// The route to the kernel; `None` once the reply has been sent.
    route: Option<Route>,
}

/// The route by which the kernel accepts the reply: the one on which it handed out the request.
enum Route {
    Device(Arc<Connection>),
    Ring(Box<RingEntry>, Reserve),
}

impl DeferredReply {
    /// Creates the reply to a request that was read from a descriptor of the device.
    pub(crate) fn to_device(unique: u64, connection: Arc<Connection>) -> DeferredReply {
        DeferredReply { unique, route: Some(Route::Device(connection)) }
    }

    /// Creates the reply to the request that an entry holds.
    pub(crate) fn to_ring(unique: u64, entry: Box<RingEntry>, reserve: Reserve) -> DeferredReply {
        DeferredReply { unique, route: Some(Route::Ring(entry, reserve)) }
    }

    /// Sends the reply.
    pub(crate) fn send(mut self, result: Result<()>) {
        self.send_once(result);
    }

    fn send_once(&mut self, result: Result<()>) {
        let number = |errno: Errno| if is_valid_reply_error(errno.number()) { errno.number() } else { libc::EIO };
        let error = result.err().map_or(0, |errno| -number(errno));
        let header = wire::OutHeader { length: size_of::<wire::OutHeader>() as u32, error, unique: self.unique };
        match self.route.take() {
            Some(Route::Device(connection)) => match write_whole(connection.as_fd(), header.as_bytes()) {
                Ok(()) | Err(SystemError::NOENT | SystemError::NODEV) => {}
                Err(error) => tracing::error!(%error, "the kernel refused a reply"),
            },
            Some(Route::Ring(mut entry, reserve)) => {
                entry.put_header(header);
                reserve.commit(entry);
            }
            None => {}
        }
    }
}

impl Drop for DeferredReply {
    fn drop(&mut self) {
        self.send_once(Err(Errno::EIO));
    }
}
