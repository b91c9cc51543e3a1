//! Marks of directories that are remembered: to ask a branch for them costs more than to look a name up.
//!
//! A mark that is set or taken away changes its directory's ctime. So what was found with a ctime that was not recent holds as
//! long as that stays the same.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vnode::{Attributes, Handle, Result, Timestamp, VnodeRef};

use super::whiteout::{self, Marks};

/// A change may have the time of one as long ago: FAT keeps times to two seconds, of a clock that may lag behind by a tick.
const CLOCK_STEP: Duration = Duration::from_millis(2_100);
/// No more directories are remembered of a branch.
const DIRECTORIES_MAX: usize = 1 << 16;

/// What is known of the marks of a branch's directories.
#[derive(Default)]
pub(super) struct MarkCache {
    known: Mutex<HashMap<Handle, (Timestamp, Marks)>>,
}

impl MarkCache {
    /// The marks of a directory with these attributes.
    pub(super) fn of(&self, directory: &VnodeRef, attributes: &Attributes) -> Result<Marks> {
        let handle = directory.handle();
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((ctime, marks)) = lock().get(&handle)
            && *ctime == attributes.ctime
        {
            return Ok(marks.clone());
        }
        let marks = whiteout::marks(directory)?;
        if is_settled(attributes.ctime) {
            let mut known = lock();
            if known.len() >= DIRECTORIES_MAX {
                known.clear();
            }
            known.insert(handle, (attributes.ctime, marks.clone()));
        }
        Ok(marks)
    }
}

/// Whether no later change can have this time.
pub(super) fn is_settled(time: Timestamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    now.saturating_sub(Duration::new(seconds, time.nanoseconds)) > CLOCK_STEP
}
