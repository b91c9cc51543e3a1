//! The classic transport: one `read` of the device per request, one `write` per reply.

use super::deferred::DeferredReply;
use super::device::{Connection, Device, write_whole};
use super::memory::MappedBuffer;
use super::queue::{Queue, Received, SetAsideRequest};
use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::wire;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use zerocopy::FromBytes;

/// The classic transport: one `read` per request, one `write` per reply.
pub(crate) struct DeviceQueue {
    /// Shared with deferred replies: the kernel accepts each only on the descriptor on which the request was read.
    connection: Arc<Connection>,
    /// The connection on which the last request was read, if it is another one.
    read_from: Option<Arc<Connection>>,
    request: MappedBuffer,
    received: usize,
    /// What is read begins at a page behind the header, so that a base can have it read from the disk without a copy.
    reply: MappedBuffer,
}

/// Offset of a reply in its memory.
const REPLY_OFFSET: usize = DATA_ALIGNMENT - Reply::HEADER;
/// Alignment of the data of a reply in bytes.
const DATA_ALIGNMENT: usize = 4096;

/// Bytes reserved for a request's header and arguments, in addition to the data of a write.
const REQUEST_OVERHEAD_BYTES: usize = 8192;

impl Queue for DeviceQueue {
    fn receive(&mut self, _may_idle: bool) -> Received {
        loop {
            match rustix::io::read(&*self.connection, &mut self.request[..]) {
                Ok(0) => return Received::Closed,
                Ok(length) => {
                    self.received = length;
                    self.read_from = None;
                    return Received::Request;
                }
                // The caller was killed before the request was read, or a signal reached this thread.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => return Received::Closed,
                Err(error) => return Received::Failed(error),
            }
        }
    }

    fn exchange(&mut self) -> (&[u8], Reply<'_>) {
        (&self.request[..self.received], Reply::new(&mut self.reply[REPLY_OFFSET..]))
    }

    fn send(&mut self, reply: Option<usize>) -> io::Result<()> {
        let Some(length) = reply else { return Ok(()) };
        let connection = self.read_from.as_ref().unwrap_or(&self.connection);
        let memory = &mut self.reply[REPLY_OFFSET..];
        match write_whole(connection.as_fd(), &memory[..length]) {
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
            Err(error) => {
                // A caller whose reply is refused would wait forever.
                let refused = wire::OutHeader::read_from_prefix(memory).map_or(0, |(header, _)| header.unique);
                let length = Reply::new(memory).finish_error(refused, libc::EIO);
                let _ = write_whole(connection.as_fd(), &memory[..length]);
                Err(error.into())
            }
        }
    }

    fn defer(&mut self, unique: u64) -> io::Result<DeferredReply> {
        Ok(DeferredReply::to_device(unique, self.reply_connection()))
    }

    fn set_aside(&mut self) -> io::Result<SetAsideRequest> {
        let mut message = Vec::new();
        message.try_reserve_exact(self.received).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        message.extend_from_slice(&self.request[..self.received]);
        Ok(SetAsideRequest::Message(message.into_boxed_slice(), self.reply_connection()))
    }

    fn send_and_resume(&mut self, reply: Option<usize>, aside: SetAsideRequest) -> io::Result<()> {
        let sent = self.send(reply);
        self.resume(aside);
        sent
    }

    fn defer_and_resume(&mut self, unique: u64, aside: SetAsideRequest) -> DeferredReply {
        let reply = DeferredReply::to_device(unique, self.reply_connection());
        self.resume(aside);
        reply
    }

    fn end(self) {}
}

impl DeviceQueue {
    /// Creates a queue for one worker. `message_bytes_max` is the maximum size of the data in a message, in bytes.
    ///
    /// # Errors
    /// Fails if there is no memory for it.
    pub(crate) fn new(device: &Arc<Device>, message_bytes_max: usize) -> io::Result<DeviceQueue> {
        Ok(DeviceQueue {
            connection: Arc::new(device.connection()),
            read_from: None,
            request: MappedBuffer::of(message_bytes_max + REQUEST_OVERHEAD_BYTES)?,
            received: 0,
            reply: MappedBuffer::of(DATA_ALIGNMENT + message_bytes_max)?,
        })
    }

    /// Returns the connection to which the reply to the last request goes.
    fn reply_connection(&self) -> Arc<Connection> {
        Arc::clone(self.read_from.as_ref().unwrap_or(&self.connection))
    }

    fn resume(&mut self, aside: SetAsideRequest) {
        // Requests of rings belong to other lanes.
        if let SetAsideRequest::Message(message, connection) = aside {
            self.received = message.len();
            self.request[..message.len()].copy_from_slice(&message);
            self.read_from = Some(connection);
        }
    }
}
