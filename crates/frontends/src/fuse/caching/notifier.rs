//! The stack's notifications: changes that did not come through the mount invalidate what the kernel caches.

use super::expiry::ExpiryQueue;
use super::notifications::{ATTRIBUTES_ONLY_OFFSET, Notification, NotificationSender};
use crate::fuse::dispatch::Dispatcher;
use std::sync::{OnceLock, Weak};
use std::time::Duration;
use vnode::{Handle, Name, Notifier};

/// Translates handles to node ids and passes the notifications on. Given to the stack before the dispatcher exists, since the
/// first operation needs both.
pub(crate) struct KernelNotifier {
    dispatcher: OnceLock<Weak<Dispatcher>>,
    notifications: NotificationSender,
    expiry: ExpiryQueue,
}

impl KernelNotifier {
    pub(crate) fn new(notifications: NotificationSender, expiry: ExpiryQueue) -> KernelNotifier {
        KernelNotifier { dispatcher: OnceLock::new(), notifications, expiry }
    }

    /// Attaches the dispatcher; from here on nodes are known.
    pub(crate) fn attach(&self, dispatcher: Weak<Dispatcher>) {
        // Attached once, by the mount that created both.
        let _ = self.dispatcher.set(dispatcher);
    }

    fn with_node(&self, handle: &Handle, notify: impl FnOnce(u64)) {
        let dispatcher = self.dispatcher.get().and_then(Weak::upgrade);
        if let Some(node) = dispatcher.and_then(|dispatcher| dispatcher.nodes().id_of(handle)) {
            notify(node);
        }
    }
}

/// Maximum time that the kernel may take to write back its dirty data, while somebody waits for a command.
const WRITE_BACK_TIMEOUT: Duration = Duration::from_secs(3);

impl Notifier for KernelNotifier {
    fn write_back(&self) -> bool {
        let dispatcher = self.dispatcher.get().and_then(Weak::upgrade);
        dispatcher.is_none_or(|dispatcher| dispatcher.write_back_within(WRITE_BACK_TIMEOUT))
    }

    fn attributes_changed(&self, handle: &Handle) {
        self.with_node(handle, |node| {
            self.notifications.send(Notification::InvalidateInode { node, offset: ATTRIBUTES_ONLY_OFFSET, length: 0 });
        });
    }

    fn data_changed(&self, handle: &Handle, _: u64, _: u64) {
        self.with_node(handle, |node| self.expiry.node(node));
    }

    fn entry_changed(&self, directory: &Handle, name: Name<'_>) {
        self.with_node(directory, |parent| {
            self.expiry.name(parent, name.as_bytes());
            self.expiry.node(parent);
        });
    }

    fn everything_changed(&self) {
        if let Some(dispatcher) = self.dispatcher.get().and_then(Weak::upgrade) {
            dispatcher.update_decisions();
        }
        self.expiry.everything();
    }
}
