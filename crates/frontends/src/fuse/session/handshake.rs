//! The first messages of a connection, in which kernel and front end negotiate.

use super::worker::send;
use crate::fuse::protocol::negotiation::{Negotiated, NegotiationResult, RequestedFeatures, negotiate};
use crate::fuse::protocol::request::{Operation, RequestLayout, decode};
use crate::fuse::transport::device::Device;
use crate::fuse::transport::device_queue::DeviceQueue;
use crate::fuse::transport::queue::{Queue, Received};
use std::sync::Arc;

/// The reason why a session could not be started.
#[derive(Debug)]
pub(crate) enum SessionError {
    /// The kernel speaks a protocol older than this front end supports.
    KernelTooOld { major: u32, minor: u32 },
    /// The connection ended before it was set up.
    Closed,
    /// The device failed.
    Device(std::io::Error),
    /// No thread could be started, or one had no memory.
    Thread(std::io::Error),
}

/// Answers the kernel's INIT, which is the first request on every connection.
pub(crate) fn handshake(device: &Arc<Device>, requested: &RequestedFeatures) -> Result<Negotiated, SessionError> {
    let page_size = rustix::param::page_size() as u32;
    let mut queue = DeviceQueue::new(device, requested.message_bytes_max as usize).map_err(SessionError::Device)?;
    loop {
        match queue.receive(false) {
            Received::Request => {}
            Received::Idle | Received::MayEnd => continue,
            Received::Closed => return Err(SessionError::Closed),
            Received::Failed(error) => return Err(SessionError::Device(error.into())),
        }
        let (message, mut reply) = queue.exchange();
        let Ok(request) = decode(message, RequestLayout::default()) else { continue };
        let Operation::Init(offer) = &request.operation else {
            let length = reply.finish_error(request.unique, libc::EIO);
            send(&mut queue, Some(length));
            continue;
        };
        match negotiate(offer, requested, page_size) {
            NegotiationResult::Agreed(init_reply, negotiated) => {
                reply.put(&*init_reply);
                let length = reply.finish(request.unique);
                queue.send(Some(length)).map_err(SessionError::Device)?;
                return Ok(negotiated);
            }
            NegotiationResult::Retry(init_reply) => {
                reply.put(&*init_reply);
                let length = reply.finish(request.unique);
                queue.send(Some(length)).map_err(SessionError::Device)?;
            }
            NegotiationResult::TooOld { major, minor } => {
                let length = reply.finish_error(request.unique, libc::EPROTO);
                send(&mut queue, Some(length));
                return Err(SessionError::KernelTooOld { major, minor });
            }
        }
    }
}
