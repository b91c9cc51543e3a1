//! Forwards changes below a union to the front end.

use std::sync::Arc;

use vnode::{Handle, Name, Notifier};

/// Forwards the news that something has changed in a branch. What users see of it may depend on all branches.
pub(crate) struct ChangeForwarder(pub(crate) Arc<dyn Notifier>);

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
