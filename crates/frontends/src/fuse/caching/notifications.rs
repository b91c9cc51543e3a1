//! Notifications: telling the kernel that cached data is stale.

use crate::fuse::protocol::wire::{self, notification};
use crate::fuse::transport::device::Device;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use zerocopy::IntoBytes;

/// A notification to the kernel.
#[allow(dead_code, reason = "no base brings data yet")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    /// Cached attributes of the node are stale, and its data from `offset` on, `length` bytes (0: all of it).
    /// A negative `offset` leaves the data alone.
    InvalidateInode { node: u64, offset: i64, length: i64 },
    /// The name has to be looked up again when next used; what is in use under it stays, and so does what is mounted there.
    ExpireEntry { parent: u64, name: Box<[u8]> },
    /// These bytes are the node's data at this offset.
    Store { node: u64, offset: u64, data: Box<[u8]> },
    /// A polled file is ready.
    PollWakeup { kernel_handle: u64 },
}

/// Sends notifications from a thread of its own.
///
/// The kernel takes a directory's lock to handle most of them, and may hold that lock for a request that is being served; a
/// thread that waits for the kernel must therefore serve no request. There are two exceptions: the attributes of a node are
/// marked stale without blocking, and the pages of an open file are written back under locks of their own.
///
/// Three notifications of the protocol are never sent, since they detach what is mounted inside: dropping a name, or a name
/// that was deleted, and dropping all names at once (the connection's epoch).
#[derive(Clone)]
pub(crate) struct NotificationSender {
    device: Arc<Device>,
    channel: Sender<Notification>,
}

impl NotificationSender {
    /// Starts the thread; it ends when the last sender is dropped.
    pub(crate) fn start(device: Arc<Device>) -> std::io::Result<(NotificationSender, JoinHandle<()>)> {
        let (channel, receiver) = channel();
        let thread_device = Arc::clone(&device);
        let thread = std::thread::Builder::new()
            .name("fuse-notify".into())
            .spawn(move || send_all(&thread_device, &receiver))?;
        Ok((NotificationSender { device, channel }, thread))
    }

    /// Queues a notification; never blocks.
    pub(crate) fn send(&self, notification: Notification) {
        // The thread ends only when this sender does.
        let _ = self.channel.send(notification);
    }

    /// Invalidates the cached attributes of a node, synchronously. Its data is left alone.
    pub(crate) fn invalidate_attributes(&self, node: u64) {
        self.send_now(&Notification::InvalidateInode { node, offset: ATTRIBUTES_ONLY_OFFSET, length: 0 });
    }

    /// Makes the kernel write back the dirty data of a node, and waits until that is done: other threads serve the writes. The
    /// kernel then drops the data. For this it takes no lock that is held for a request of an open file.
    pub(crate) fn write_back(&self, node: u64) {
        self.send_now(&Notification::InvalidateInode { node, offset: 0, length: 0 });
    }

    /// Makes the kernel revalidate a name at the next use. Waits for the directory's lock: for a thread that serves no
    /// request.
    pub(crate) fn expire_name(&self, parent: u64, name: &[u8]) {
        self.send_now(&Notification::ExpireEntry { parent, name: name.into() });
    }

    /// Makes the kernel drop what it caches of a node: attributes and data. Waits for data that is being read: for a thread
    /// that serves no request.
    pub(crate) fn invalidate_node(&self, node: u64) {
        self.send_now(&Notification::InvalidateInode { node, offset: 0, length: 0 });
    }

    fn send_now(&self, notification: &Notification) {
        let mut message = Vec::new();
        encode(notification, &mut message);
        log_error(self.device.notify(&message), "notification");
    }
}

/// Offset of an invalidation that leaves the node's data alone.
pub(crate) const ATTRIBUTES_ONLY_OFFSET: i64 = -1;

fn send_all(device: &Device, receiver: &Receiver<Notification>) {
    let mut message = Vec::new();
    for notification in receiver {
        encode(&notification, &mut message);
        log_error(device.notify(&message), "notification");
    }
}

/// Logs the error of a notification. A node or name that the kernel does not have (any more) needs no invalidation.
fn log_error(result: Result<(), Errno>, what: &str) {
    match result {
        Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::NOTDIR | Errno::NOTEMPTY) => {}
        Err(error) => tracing::warn!(%error, "the kernel refused a {what}"),
    }
}

fn encode_header(code: i32, payload: usize) -> wire::OutHeader {
    let length = (size_of::<wire::OutHeader>() + payload) as u32;
    wire::OutHeader { length, error: code, unique: 0 }
}

fn encode(notification: &Notification, message: &mut Vec<u8>) {
    match *notification {
        Notification::InvalidateInode { node, offset, length } => {
            let fixed = wire::NotifyInvalInode { node, offset, length };
            assemble(message, notification::INVAL_INODE, fixed.as_bytes(), &[], &[]);
        }
        Notification::ExpireEntry { parent, ref name } => {
            let flags = wire::EXPIRE_ONLY;
            let fixed = wire::NotifyInvalEntry { parent, name_length: name.len() as u32, flags };
            assemble(message, notification::INVAL_ENTRY, fixed.as_bytes(), name, &[0]);
        }
        Notification::Store { node, offset, ref data } => {
            let fixed = wire::NotifyStore { node, offset, size: data.len() as u32, padding: 0 };
            assemble(message, notification::STORE, fixed.as_bytes(), data, &[]);
        }
        Notification::PollWakeup { kernel_handle } => {
            let fixed = wire::NotifyPoll { kernel_handle };
            assemble(message, notification::POLL, fixed.as_bytes(), &[], &[]);
        }
    }
}

fn assemble(message: &mut Vec<u8>, code: i32, fixed: &[u8], variable: &[u8], end: &[u8]) {
    let header = encode_header(code, fixed.len() + variable.len() + end.len());
    message.clear();
    for part in [header.as_bytes(), fixed, variable, end] {
        message.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(notification: &Notification) -> Vec<u8> {
        let mut message = b"left from before".to_vec();
        encode(notification, &mut message);
        assert_eq!(message[..4], (message.len() as u32).to_le_bytes());
        assert_eq!(message[8..16], [0; 8], "a notification has no unique");
        message
    }

    #[test]
    fn entry_notification_has_name_length_and_terminator() {
        let name: Box<[u8]> = b"name".as_slice().into();
        let message = encoded(&Notification::ExpireEntry { parent: 7, name });
        assert_eq!(message[4..8], 3i32.to_le_bytes());
        assert_eq!(message[24..28], 4u32.to_le_bytes());
        assert_eq!(message[28..32], 1u32.to_le_bytes(), "it only expires");
        assert_eq!(&message[32..], b"name\0");
    }

    #[test]
    fn notifications_have_their_protocol_sizes() {
        let inode = Notification::InvalidateInode { node: 9, offset: 0, length: 0 };
        assert_eq!(encoded(&inode).len(), 16 + 24);
        let store = Notification::Store { node: 9, offset: 4096, data: b"data".as_slice().into() };
        let message = encoded(&store);
        assert_eq!(message[32..36], 4u32.to_le_bytes());
        assert_eq!(&message[40..], b"data");
        assert_eq!(encoded(&Notification::PollWakeup { kernel_handle: 1 }).len(), 16 + 8);
    }
}
