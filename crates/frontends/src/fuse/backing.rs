//! Registering backing files for passthrough, with credentials that keep set-id bits or clear them.
//!
//! The kernel asks for CAP_SYS_ADMIN, which a worker that acts for a user may have put aside: it takes it back for the call.

use super::device::Device;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::os::fd::BorrowedFd;

/// Registers `file` with the kernel, to be written by callers who are `privileged` or by others.
///
/// The kernel does passthrough I/O with the credentials of whoever registers the file. With CAP_FSETID a write keeps the
/// set-user-id and set-group-id bits, as it does for root; for other callers the capability is put aside for the call, so
/// that the file system below clears them.
pub(crate) fn register(device: &Device, file: BorrowedFd<'_>, privileged: bool) -> Result<i32, Errno> {
    let aside = if privileged { CapabilitySet::empty() } else { CapabilitySet::FSETID };
    with_administration(aside, || device.open_backing(file))
}

/// Ends a registration.
pub(crate) fn unregister(device: &Device, id: i32) -> Result<(), Errno> {
    with_administration(CapabilitySet::empty(), || device.close_backing(id))
}

/// Calls with CAP_SYS_ADMIN, if the thread is permitted that, and without those that are put aside.
fn with_administration<T>(aside: CapabilitySet, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let Ok(before) = capabilities(None) else { return call() };
    let mut during = before;
    during.effective = (before.effective | (before.permitted & CapabilitySet::SYS_ADMIN)) - aside;
    if during == before {
        return call();
    }
    set_capabilities(None, during)?;
    let called = call();
    // Giving up, or taking back what the thread is still permitted, cannot be refused.
    if let Err(error) = set_capabilities(None, before) {
        tracing::error!(%error, "a worker has other capabilities than before");
    }
    called
}
