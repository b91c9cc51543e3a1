//! Notifications to the service manager that started a server in the foreground, see sd_notify(3).

use sd_notify::{NotifyState, notify};
use stack::printable::escaped;

/// The service manager of this process. Without one, notifications have no effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceManager {
    is_notified: bool,
}

impl ServiceManager {
    /// Returns the service manager of a server. One in the background is not the process that the manager started, which ends when the
    /// mount is usable.
    pub(crate) fn of(is_in_foreground: bool) -> Self {
        Self { is_notified: is_in_foreground }
    }

    /// Reports that the mount is usable.
    pub(crate) fn ready(self, status: &str) {
        self.send(NotifyState::Ready, status);
    }

    /// Reports that the mount ends.
    pub(crate) fn stopping(self, status: &str) {
        self.send(NotifyState::Stopping, status);
    }

    fn send(self, state: NotifyState<'_>, status: &str) {
        if !self.is_notified {
            return;
        }
        // A status is one line.
        if let Err(error) = notify(&[state, NotifyState::Status(&escaped(status))]) {
            tracing::warn!(%error, "the service manager cannot be notified (NOTIFY_SOCKET)");
        }
    }
}
