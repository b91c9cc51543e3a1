//! Names by which NFS's client still finds what is gone.
//!
//! Where a directory is removed and another made by its name, the client may go on with the former for a while, each use of which
//! answers `ESTALE`. It looks at the name again where a system call with a path fails so (path_lookup's `LOOKUP_REVAL`), but not
//! for descriptors, which are all that is used here.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, StatxFlags, statx};
use vnode::Name;

/// For so long after a stale object was met, names are looked at again: whoever met it asks once more at once.
const LATELY: Duration = Duration::from_secs(1);

/// When a stale object was last met, in milliseconds since the first was, and one more. 0 if none was.
static MET: AtomicU64 = AtomicU64::new(0);

fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// A stale object was met.
pub fn is_met() {
    MET.store(now(), Ordering::Relaxed);
}

/// Has the kernel ask the server what a name means, if a stale object was met lately.
pub fn look_again(directory: BorrowedFd<'_>, name: Name<'_>) {
    let met = MET.load(Ordering::Relaxed);
    if met != 0 && now().saturating_sub(met) <= LATELY.as_millis() as u64 {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
        // What is wrong with it is told to whoever opens it.
        let _ = statx(directory, name.as_bytes(), flags, StatxFlags::TYPE);
    }
}
