//! The process's memory: allocations for contents and names are checked first, so that lack of memory is an error like any
//! other.
//!
//! Most collections cannot report a failure to grow. So from time to time a probe checks whether the system would still
//! grant much more than they take until the next probe; memory taken elsewhere, such as for a reply in transit, is then
//! available too.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::{Errno, Result};

use crate::allocator::can_map;

/// Number of bytes that must remain available besides the requested ones.
const HEADROOM_BYTES: u64 = 8 << 20;

/// Number of bytes that may be taken until the next probe.
const PROBE_CREDIT_BYTES: u64 = 1 << 20;

/// The remaining credit in bytes, of all file systems of the process.
static CREDIT_LEFT_BYTES: AtomicU64 = AtomicU64::new(0);

/// Maximum memory in bytes of a directory entry with its object.
pub(crate) const ENTRY_BYTES: u64 = 2048;

/// Checks that memory is available, which the caller then allocates.
///
/// # Errors
/// `ENOSPC` if too little would be left.
pub(crate) fn check_available(bytes: u64) -> Result<()> {
    let less = |left: u64| left.checked_sub(bytes);
    if CREDIT_LEFT_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
        return Ok(());
    }
    let wanted =
        bytes.checked_add(HEADROOM_BYTES).and_then(|wanted| usize::try_from(wanted).ok()).ok_or(Errno::ENOSPC)?;
    if !can_map(wanted) {
        return Err(Errno::ENOSPC);
    }
    CREDIT_LEFT_BYTES.store(PROBE_CREDIT_BYTES, Ordering::Relaxed);
    Ok(())
}

/// Returns a copy of these bytes.
///
/// # Errors
/// `ENOSPC` without memory for it.
pub(crate) fn copy(bytes: &[u8]) -> Result<Box<[u8]>> {
    let mut copy = vector_with_capacity(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy.into_boxed_slice())
}

/// Returns `length` zero bytes.
///
/// # Errors
/// As [`copy`].
pub(crate) fn zeros(length: usize) -> Result<Box<[u8]>> {
    let mut zeros = vector_with_capacity(length)?;
    zeros.resize(length, 0);
    Ok(zeros.into_boxed_slice())
}

fn vector_with_capacity(length: usize) -> Result<Vec<u8>> {
    check_available(length as u64)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::ENOSPC)?;
    Ok(bytes)
}
