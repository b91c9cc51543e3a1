//! Names in a directory of a branch that are remembered, so that a name which one of many branches has costs nothing in the
//! others.
//!
//! A directory is read after it was asked in vain, the more often the larger it is, and believed for a while.
//! Names that this union changes are asked for again; what others change is seen by the directory's times when that while is
//! over, or when nothing is found. Two changes in one step of a coarse clock have the same times: that nothing is there is
//! believed only of a directory that has rested for longer.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use hashbrown::HashSet;
use vnode::{Attributes, Caller, Name, Result, Timestamp, VnodeRef};

use super::identity::hash;
use super::marks::is_settled;
use super::whiteout;

/// To read so many names costs about as much as one question in vain.
const NAMES_PER_MISS: u32 = 16;
/// So many names are read at first, to learn how large the directory is.
const NAMES_AT_FIRST: u32 = 512;
/// A directory of more names is not remembered.
const NAMES_MAX: u32 = 1 << 15;
/// After so long it is looked whether somebody else has changed the directory. For as long a branch that was found healthy is
/// believed that it has nothing.
pub(super) const BELIEVED: Duration = Duration::from_millis(20);
/// If more names have been changed, the directory is read again.
const UNSURE_MAX: usize = 4096;

/// What is known of the names in a directory of a branch.
#[derive(Default)]
pub(super) struct NameCache {
    known: RwLock<Option<Known>>,
    /// How often the directory was asked in vain since its names were last known.
    misses: AtomicU32,
    /// How many names it had at least when it was last read.
    size: AtomicU32,
    /// How often what is known was replaced or forgotten.
    replacements: AtomicU64,
}

struct Known {
    names: HashSet<u64>,
    /// Names that were changed since.
    unsure: HashSet<u64>,
    has_whiteouts: bool,
    times: Times,
    /// When it was read, no later change could have these times.
    is_settled: bool,
    checked: Instant,
}

/// When a directory was last changed. Its mtime may have been set back since, but not its ctime.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    mtime: Timestamp,
    ctime: Timestamp,
}

impl Times {
    pub(super) fn of(attributes: &Attributes) -> Self {
        Self { mtime: attributes.mtime, ctime: attributes.ctime }
    }

    fn are_settled(self) -> bool {
        is_settled(self.mtime) && is_settled(self.ctime)
    }
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

impl Answer {
    /// Whether the directory has neither.
    pub(super) fn is_nothing(self) -> bool {
        !self.may_have_object && !self.may_have_whiteout
    }
}

impl NameCache {
    /// What the directory may have by a name.
    pub(super) fn ask(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<Answer> {
        if let Some(known) = self.read().as_ref().filter(|known| known.is_believed()) {
            return Ok(known.answer(stored));
        }
        if self.misses.load(Ordering::Relaxed) < self.price() {
            return Ok(ANYTHING);
        }
        self.learn(directory)?;
        Ok(self.read().as_ref().map_or(ANYTHING, |known| known.answer(stored)))
    }

    /// Whether it is known without asking that the directory has nothing by a name.
    pub(super) fn excludes(&self, stored: Name<'_>) -> bool {
        let known = self.read();
        known.as_ref().is_some_and(|known| known.is_believed() && known.answer(stored).is_nothing())
    }

    /// Somebody has just read the whole directory: the hashes of its names, and its times before that. This union has
    /// changed no name meanwhile.
    pub(super) fn learn_from(&self, names: impl Iterator<Item = u64>, has_whiteouts: bool, times: Times) {
        let names: HashSet<u64> = names.take(NAMES_MAX as usize + 1).collect();
        if names.len() <= NAMES_MAX as usize {
            self.size.store(names.len() as u32, Ordering::Relaxed);
            let (unsure, checked) = (HashSet::new(), Instant::now());
            let known = Known { names, unsure, has_whiteouts, times, is_settled: times.are_settled(), checked };
            self.replace(&mut self.write(), Some(known));
        }
    }

    /// The directory was asked, and has nothing by the name.
    pub(super) fn has_missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// How often what is known was replaced. Where that has changed since a question, [`NameCache::is_outdated`] says nothing of
    /// what the answer came from: another thread has learnt or forgotten meanwhile.
    pub(super) fn replacements(&self) -> u64 {
        self.replacements.load(Ordering::Acquire)
    }

    /// Whether somebody else may have changed the directory since its names were learnt; then they are forgotten.
    pub(super) fn is_outdated(&self, directory: &VnodeRef) -> Result<bool> {
        let Some((times, is_settled)) = self.read().as_ref().map(|known| (known.times, known.is_settled)) else {
            return Ok(false);
        };
        let is_outdated = !is_settled || times != Times::of(&directory.getattr(&Caller::server())?);
        if is_outdated {
            self.forget();
        }
        Ok(is_outdated)
    }

    /// A name in the directory may have been changed, and its whiteout.
    pub(super) fn changed(&self, stored: u64) {
        if self.read().is_some() {
            let mut known = self.write();
            if let Some(inside) = &mut *known {
                inside.unsure.insert(stored);
                if inside.unsure.len() > UNSURE_MAX {
                    self.replace(&mut known, None);
                }
            }
        }
    }

    /// Any name in the directory may have been changed.
    pub(super) fn forget(&self) {
        if self.read().is_some() {
            self.replace(&mut self.write(), None);
        }
    }

    /// How often it is asked in vain before it is read.
    fn price(&self) -> u32 {
        1 + self.size.load(Ordering::Relaxed) / NAMES_PER_MISS
    }

    /// Reads the directory, unless it is as it was.
    fn learn(&self, directory: &VnodeRef) -> Result<()> {
        let times = Times::of(&directory.getattr(&Caller::server())?);
        let mut known = self.write();
        if let Some(same) = known.as_mut().filter(|known| known.is_settled && known.times == times) {
            same.checked = Instant::now();
            return Ok(());
        }
        self.replace(&mut known, None);
        let limit = self.size.load(Ordering::Relaxed).saturating_mul(8).clamp(NAMES_AT_FIRST, NAMES_MAX);
        let read = Known::read(directory, times, limit)?;
        let size = read.as_ref().map_or(limit, |known| known.names.len() as u32);
        self.size.store(size, Ordering::Relaxed);
        self.misses.store(0, Ordering::Relaxed);
        *known = read;
        Ok(())
    }

    /// Replaces what is known, by nothing or by what was just learnt.
    fn replace(&self, known: &mut Option<Known>, by: Option<Known>) {
        *known = by;
        self.replacements.fetch_add(1, Ordering::Release);
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The names of a directory; `None` if they are more than that.
    fn read(directory: &VnodeRef, times: Times, limit: u32) -> Result<Option<Self>> {
        let server = Caller::server();
        let (mut names, mut has_whiteouts) = (HashSet::new(), false);
        let (checked, is_settled) = (Instant::now(), times.are_settled());
        directory.open_directory(&server)?.read(&server, 0, &mut |entry| {
            has_whiteouts |= whiteout::is_special(entry.name.as_bytes());
            names.insert(hash(entry.name.as_bytes()));
            if names.len() > limit as usize { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let unsure = HashSet::new();
        let is_whole = names.len() <= limit as usize;
        Ok(is_whole.then_some(Self { names, unsure, has_whiteouts, times, is_settled, checked }))
    }

    fn is_believed(&self) -> bool {
        self.checked.elapsed() < BELIEVED
    }

    fn answer(&self, stored: Name<'_>) -> Answer {
        let hashed = hash(stored.as_bytes());
        if !self.unsure.is_empty() && self.unsure.contains(&hashed) {
            return ANYTHING;
        }
        let may_have_whiteout = self.has_whiteouts
            && whiteout::whiteout_name(stored).is_ok_and(|name| self.names.contains(&hash(name.as_bytes())));
        Answer { may_have_object: self.names.contains(&hashed), may_have_whiteout }
    }
}
