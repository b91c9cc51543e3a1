//! Cache of directories' marks: querying a branch for them costs more than looking a name up.
//!
//! Setting or removing a mark changes its directory's ctime. So a result found with a ctime that was not recent is valid as
//! long as the ctime stays the same.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vnode::{Attributes, Handle, Result, Timestamp, VnodeRef};

use super::whiteout::{self, DirectoryMarks};

/// Period within which a later change may have the same time: FAT stores times in steps of two seconds, and its clock may lag
/// by a tick.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(2_100);
/// Maximum number of cached directories of all branches of a server, divided equally among these.
const MAX_CACHED_DIRECTORIES: usize = 1 << 16;
/// Minimum number of cached directories of a branch.
const MIN_DIRECTORIES_PER_BRANCH: usize = 1 << 10;
/// Maximum length in bytes of a path in a cached redirect mark.
const MAX_CACHED_REDIRECT_BYTES: usize = 256;

/// Number of caches.
static CACHE_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Cached marks of a branch's directories.
pub(crate) struct MarkCache {
    entries: Mutex<HashMap<Handle, (Timestamp, DirectoryMarks)>>,
}

impl Default for MarkCache {
    fn default() -> Self {
        CACHE_COUNT.fetch_add(1, Ordering::Relaxed);
        Self { entries: Mutex::default() }
    }
}

impl Drop for MarkCache {
    fn drop(&mut self) {
        CACHE_COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MarkCache {
    /// The marks of a directory with these attributes.
    pub(crate) fn marks_of(&self, directory: &VnodeRef, attributes: &Attributes) -> Result<DirectoryMarks> {
        let handle = directory.handle();
        let lock = || self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((ctime, marks)) = lock().get(&handle)
            && *ctime == attributes.ctime
        {
            return Ok(marks.clone());
        }
        let marks = whiteout::marks(directory)?;
        let is_short = marks.redirect.as_ref().is_none_or(|path| path.len() <= MAX_CACHED_REDIRECT_BYTES);
        if is_short && is_settled(attributes.ctime) {
            let mut entries = lock();
            if entries.len() >= directories_per_branch(CACHE_COUNT.load(Ordering::Relaxed)) {
                entries.clear();
            }
            entries.insert(handle, (attributes.ctime, marks.clone()));
        }
        Ok(marks)
    }
}

/// Maximum number of cached directories of each of `branches` branches.
fn directories_per_branch(branches: usize) -> usize {
    (MAX_CACHED_DIRECTORIES / branches.max(1)).max(MIN_DIRECTORIES_PER_BRANCH)
}

/// Returns whether no later change can have this time.
pub(crate) fn is_settled(time: Timestamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    now.saturating_sub(Duration::new(seconds, time.nanoseconds)) > MAX_CLOCK_STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_share_the_cache_capacity() {
        assert_eq!([1, 2, 16].map(|branches| branches * directories_per_branch(branches)), [MAX_CACHED_DIRECTORIES; 3]);
        assert_eq!(directories_per_branch(1 << 20), MIN_DIRECTORIES_PER_BRANCH);
    }
}
