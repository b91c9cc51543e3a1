//! Registration of backing files for passthrough, with credentials that either keep set-ID bits or clear them.
//!
//! The kernel requires CAP_SYS_ADMIN, which a worker that acts for a user may have dropped from its effective set: it is
//! raised again for the call.

use super::transport::device::Device;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::os::fd::BorrowedFd;

/// Registers `file` with the kernel, to be written by callers that are `privileged` or by others.
///
/// The kernel does passthrough I/O with the credentials of the task that registers the file. With CAP_FSETID a write keeps the
/// set-user-ID and set-group-ID bits, as it does for root; for other callers the capability is dropped for the call, so that
/// the lower file system clears them.
pub(crate) fn register(device: &Device, file: BorrowedFd<'_>, privileged: bool) -> Result<i32, Errno> {
    let aside = if privileged { CapabilitySet::empty() } else { CapabilitySet::FSETID };
    with_administration(aside, || device.open_backing(file))
}

/// Removes a registration.
pub(crate) fn unregister(device: &Device, id: i32) -> Result<(), Errno> {
    with_administration(CapabilitySet::empty(), || device.close_backing(id))
}

/// Calls with CAP_SYS_ADMIN, if it is in the thread's permitted set, and without the capabilities in `aside`.
fn with_administration<T>(aside: CapabilitySet, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let Ok(before) = capabilities(None) else { return call() };
    let mut during = before;
    during.effective = (before.effective | (before.permitted & CapabilitySet::SYS_ADMIN)) - aside;
    if during == before {
        return call();
    }
    set_capabilities(None, during)?;
    let called = call();
    // Neither dropping a capability nor raising one that is still permitted can be refused.
    if let Err(error) = set_capabilities(None, before) {
        tracing::error!(%error, "a worker has other capabilities than before");
    }
    called
}
