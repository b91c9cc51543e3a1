//! Registering backing files for passthrough, with credentials that keep no set-id bits.

use super::device::Device;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::os::fd::BorrowedFd;

/// Registers `file` with the kernel.
///
/// The kernel does passthrough I/O with the credentials of whoever registers the file. CAP_FSETID would let every write
/// keep set-user-id and set-group-id bits; it is put aside for the call, so that the file system below clears them.
pub(crate) fn register(device: &Device, file: BorrowedFd<'_>) -> Result<i32, Errno> {
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
