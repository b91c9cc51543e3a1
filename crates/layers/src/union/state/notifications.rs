//! Notifications of a union: front ends are told of changes in the branches.

use std::sync::Arc;

use vnode::{FileSystem, Handle, Name, Notifier, Notifiers};

/// Receivers of a union's notifications. Clones share them.
#[derive(Clone)]
pub(crate) struct Notifications {
    receivers: Arc<Notifiers>,
    /// The union as a receiver of its branches' notifications.
    forwarder: Arc<dyn Notifier>,
}

impl Default for Notifications {
    fn default() -> Self {
        let receivers = Arc::new(Notifiers::default());
        Self { forwarder: Arc::new(ChangeForwarder(Arc::clone(&receivers))), receivers }
    }
}

impl Notifications {
    /// Returns the receivers.
    pub(crate) fn receivers(&self) -> &Notifiers {
        &self.receivers
    }

    /// Forwards the notifications of a branch from now on.
    pub(crate) fn forward_from(&self, branch: &dyn FileSystem) {
        branch.add_notifier(&self.forwarder);
    }
}

/// Forwards the news that something has changed in a branch. What users see of it may depend on all branches.
struct ChangeForwarder(Arc<Notifiers>);

impl Notifier for ChangeForwarder {
    fn write_back(&self) -> bool {
        self.0.write_back()
    }

    fn attributes_changed(&self, _: &Handle) {
        self.0.everything_changed();
    }

    fn data_changed(&self, _: &Handle, _: u64, _: u64) {
        self.0.everything_changed();
    }

    fn entry_changed(&self, _: &Handle, _: Name<'_>) {
        self.0.everything_changed();
    }

    fn everything_changed(&self) {
        self.0.everything_changed();
    }
}
