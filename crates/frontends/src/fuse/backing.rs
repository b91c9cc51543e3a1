//! Registering backing files for passthrough, with credentials that keep set-id bits or clear them.

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
    if privileged {
        return device.open_backing(file);
    }
    let Ok(before) = capabilities(None) else { return device.open_backing(file) };
    if !before.effective.contains(CapabilitySet::FSETID) {
        return device.open_backing(file);
    }
    let mut without = before;
    without.effective.remove(CapabilitySet::FSETID);
    set_capabilities(None, without)?;
    let registered = device.open_backing(file);
    // Taking back what the thread is still permitted cannot be refused.
    if let Err(error) = set_capabilities(None, before) {
        tracing::error!(%error, "a worker lost CAP_FSETID");
    }
    registered
}
