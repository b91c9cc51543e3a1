//! Whether anybody reads the standard error of this process.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_DISCARDED: AtomicBool = AtomicBool::new(false);

/// Declares that nobody reads the standard error of this process, as of a server in the background without a log file: nothing is
/// sent there by default from now on.
pub fn declare_discarded() {
    IS_DISCARDED.store(true, Ordering::Relaxed);
}

/// Returns whether [`declare_discarded`] was called.
pub(crate) fn is_discarded() -> bool {
    IS_DISCARDED.load(Ordering::Relaxed)
}
