//! Vnode calls as made by system calls: retried if a name appeared or vanished meanwhile, with validated arguments.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::{Caller, Errno, LockOwner, Result, SetAttributes, SetTime, Timestamp, VnodeRef};

use crate::TimeChange;

/// Returns a new lock owner, distinct from those of all other clients and open files.
pub(crate) fn new_owner() -> LockOwner {
    static NEXT_OWNER: AtomicU64 = AtomicU64::new(1);
    LockOwner::Number(NEXT_OWNER.fetch_add(1, Ordering::Relaxed))
}

/// Retries the resolution when an object vanished on the way, as the kernel does.
pub(crate) fn retry<R>(operation: impl Fn() -> Result<R>) -> Result<R> {
    let mut result = operation();
    for _ in 0..20 {
        if !matches!(result, Err(Errno::ESTALE)) {
            break;
        }
        result = operation();
    }
    result
}

/// Changes attributes, unless no change is requested.
pub(crate) fn change(caller: &Caller, vnode: &VnodeRef, changes: &SetAttributes) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    vnode.setattr(caller, changes).map(drop)
}

pub(crate) fn times(access: TimeChange, modification: TimeChange) -> SetAttributes {
    let set = |change| match change {
        TimeChange::Keep => None,
        TimeChange::Now => Some(SetTime::Now),
        TimeChange::To(time) => Some(SetTime::To(Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds })),
    };
    SetAttributes { atime: set(access), mtime: set(modification), ..SetAttributes::default() }
}

/// Returns a size or offset if a file can have it.
pub(crate) fn check_length(length: u64) -> Result<u64> {
    if i64::try_from(length).is_ok() { Ok(length) } else { Err(Errno::EINVAL) }
}
