//! Names in a directory of a branch that are remembered, so that a name which one of many branches has costs nothing in the
//! others.
//!
//! A directory is read after some questions that it could not answer, and believed for a while; what this union changes is
//! forgotten at once (by the lock of the directory), and what others change is seen by its mtime.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use vnode::{Caller, Name, Result, Timestamp, VnodeRef};

use super::identity::hash;
use super::marks::is_settled;
use super::whiteout::{self, PREFIX};

/// So many questions are asked before the directory is read.
const QUESTIONS: u32 = 8;
/// A directory of more names is not remembered.
const NAMES_MAX: usize = 1 << 15;
/// After so long it is looked whether somebody else has changed the directory.
const BELIEVED: Duration = Duration::from_secs(1);

/// What is known of the names in a directory of a branch.
#[derive(Default)]
pub(super) struct NameCache {
    known: RwLock<Option<Known>>,
    questions: AtomicU32,
}

struct Known {
    names: HashSet<u64>,
    has_whiteouts: bool,
    mtime: Timestamp,
    checked: Instant,
}

/// What a directory may have by a name.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) may_have_object: bool,
    /// As a file of its own.
    pub(super) may_have_whiteout: bool,
}

/// What has to be asked.
pub(super) const ANYTHING: Answer = Answer { may_have_object: true, may_have_whiteout: true };

impl NameCache {
    /// What the directory may have by a name.
    pub(super) fn ask(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<Answer> {
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.as_ref().filter(|known| known.checked.elapsed() < BELIEVED) {
                return Ok(known.answer(stored));
            }
        }
        if self.questions.load(Ordering::Relaxed) < QUESTIONS {
            self.questions.fetch_add(1, Ordering::Relaxed);
            return Ok(ANYTHING);
        }
        self.learn(directory)?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Ok(known.as_ref().map_or(ANYTHING, |known| known.answer(stored)))
    }

    /// The directory has been changed.
    pub(super) fn forget(&self) {
        self.questions.store(0, Ordering::Relaxed);
        if self.known.read().unwrap_or_else(PoisonError::into_inner).is_some() {
            *self.known.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Reads the directory, unless it is as it was.
    fn learn(&self, directory: &VnodeRef) -> Result<()> {
        let mtime = directory.getattr(&Caller::server())?.mtime;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match known.as_mut().filter(|known| known.mtime == mtime) {
            Some(known) => known.checked = Instant::now(),
            None => {
                *known = None;
                // It may be changed again within the same time. Ask again later.
                self.questions.store(0, Ordering::Relaxed);
                if is_settled(mtime) {
                    *known = Known::read(directory, mtime)?;
                    self.questions.store(QUESTIONS, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }
}

impl Known {
    fn read(directory: &VnodeRef, mtime: Timestamp) -> Result<Option<Self>> {
        let server = Caller::server();
        let (mut names, mut has_whiteouts) = (HashSet::new(), false);
        directory.open_directory(&server)?.read(&server, 0, &mut |entry| {
            has_whiteouts |= entry.name.as_bytes().starts_with(PREFIX);
            names.insert(hash(entry.name.as_bytes()));
            if names.len() > NAMES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok((names.len() <= NAMES_MAX).then(|| Self { names, has_whiteouts, mtime, checked: Instant::now() }))
    }

    fn answer(&self, stored: Name<'_>) -> Answer {
        let has = |name: &[u8]| self.names.contains(&hash(name));
        let may_have_whiteout =
            self.has_whiteouts && whiteout::whiteout_name(stored).is_ok_and(|name| has(name.as_bytes()));
        Answer { may_have_object: has(stored.as_bytes()), may_have_whiteout }
    }
}
