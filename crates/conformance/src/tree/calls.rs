//! Vnode calls as system calls make them: tried again where a name came to be or went meanwhile, with values that are checked.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::{Caller, Errno, LockOwner, Result, SetAttributes, SetTime, Timestamp, VnodeRef};

use crate::TimeChange;

/// A lock owner that no other client or open file is.
pub(super) fn new_owner() -> LockOwner {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    LockOwner(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Resolves anew when an object vanished on the way, as the kernel does.
pub(super) fn retry<R>(operation: impl Fn() -> Result<R>) -> Result<R> {
    let mut result = operation();
    for _ in 0..20 {
        if !matches!(result, Err(Errno::ESTALE)) {
            break;
        }
        result = operation();
    }
    result
}

/// Changes attributes, unless there is nothing to change.
pub(super) fn change(caller: &Caller, vnode: &VnodeRef, changes: &SetAttributes) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    vnode.setattr(caller, changes).map(drop)
}

pub(super) fn times(access: TimeChange, modification: TimeChange) -> SetAttributes {
    let set = |change| match change {
        TimeChange::Keep => None,
        TimeChange::Now => Some(SetTime::Now),
        TimeChange::To(time) => Some(SetTime::To(Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds })),
    };
    SetAttributes { atime: set(access), mtime: set(modification), ..SetAttributes::default() }
}

/// A size or offset that a file can have.
pub(super) fn checked(length: u64) -> Result<u64> {
    if i64::try_from(length).is_ok() { Ok(length) } else { Err(Errno::EINVAL) }
}
