//! The process's memory: what contents and names are to take is asked for first, so that lack of it is an error like any other.
//!
//! Most collections cannot fail to grow. So now and then it is tried whether the system would still give much more than they
//! take until the next try; what is not theirs, such as a reply on its way, finds memory then too.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::{Errno, Result};

use crate::allocator::can_map;

/// Bytes that must still be there besides what is asked for.
const HEADROOM: u64 = 8 << 20;

/// Bytes that may be taken until it is tried again.
const CREDIT: u64 = 1 << 20;

/// What is left of the credit, of all file systems of the process.
static CREDIT_LEFT: AtomicU64 = AtomicU64::new(0);

/// Memory that an entry of a directory takes, with its object, bytes at most.
pub(super) const ENTRY_BYTES: u64 = 2048;

/// Asks for memory, which the caller allocates then.
///
/// # Errors
/// `ENOSPC` if it would leave too little.
pub(super) fn ask(bytes: u64) -> Result<()> {
    let less = |left: u64| left.checked_sub(bytes);
    if CREDIT_LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
        return Ok(());
    }
    let wanted = bytes.checked_add(HEADROOM).and_then(|wanted| usize::try_from(wanted).ok()).ok_or(Errno::ENOSPC)?;
    if !can_map(wanted) {
        return Err(Errno::ENOSPC);
    }
    CREDIT_LEFT.store(CREDIT, Ordering::Relaxed);
    Ok(())
}

/// A copy of these bytes.
///
/// # Errors
/// `ENOSPC` if there is no memory for it.
pub(super) fn copy(bytes: &[u8]) -> Result<Box<[u8]>> {
    let mut copy = room_for(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy.into_boxed_slice())
}

/// Zeros.
///
/// # Errors
/// As [`copy`].
pub(super) fn zeros(length: usize) -> Result<Box<[u8]>> {
    let mut zeros = room_for(length)?;
    zeros.resize(length, 0);
    Ok(zeros.into_boxed_slice())
}

fn room_for(length: usize) -> Result<Vec<u8>> {
    ask(length as u64)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::ENOSPC)?;
    Ok(bytes)
}
