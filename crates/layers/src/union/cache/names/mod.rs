//! Cache of the names in a directory of a branch: a name that only one of many branches has costs nothing in the others.
//!
//! A directory is read after a number of misses that grows with its size, and the result is trusted for a while. Names that
//! this union changes are queried again; others' changes are detected by the directory's times when that while is over, or when
//! nothing is found. Two changes within one step of a coarse clock have the same times: a negative result is trusted only if
//! the directory has been unchanged for longer than that.
//!
//! All caches of a server together hold at most [`NAMES_OF_ALL_MAX`] names: see [`budget`].

mod budget;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashSet;
use vnode::{Attributes, Caller, FileKind, Name, Result, Timestamp, VnodeRef};

use super::directory_marks::is_settled;
use crate::union::branch::whiteout;
use crate::union::identity::hash;
use budget::{Budget, Charge};

/// Number of names that can be read for about the cost of one miss.
const NAMES_PER_MISS: u32 = 16;
/// Number of names in the first read, which finds out how large the directory is.
const NAMES_AT_FIRST: u32 = 512;
/// Maximum number of names in a cached directory.
const NAMES_MAX: u32 = 1 << 15;
/// Maximum number of names in the caches of all directories together. One takes up to 20 bytes.
const NAMES_OF_ALL_MAX: usize = 1 << 20;
/// Time after which a directory is checked for others' changes. A branch that was found healthy is trusted for as long when it
/// reports that something does not exist.
pub(crate) const BELIEVED: Duration = Duration::from_millis(20);
/// Maximum number of changed names before the directory is read again.
const UNSURE_MAX: usize = 4096;

/// Names that all caches of the server may hold.
static BUDGET: Budget = Budget::new(NAMES_OF_ALL_MAX);

/// Cached names in a directory of a branch. Anything but a directory has no cache.
#[derive(Clone)]
pub(crate) struct Names(Option<Arc<NameCache>>);

/// Size in bytes of an empty cache.
#[cfg(test)]
pub(crate) const CACHE_BYTES: usize = size_of::<NameCache>() + 2 * size_of::<usize>();

/// Cached names in one directory.
struct NameCache {
    this: Weak<NameCache>,
    budget: &'static Budget,
    known: RwLock<Option<Box<Known>>>,
    /// Whether the budget has queued it for eviction.
    is_queued: AtomicBool,
    /// Whether it has been used since eviction last skipped it.
    is_used: AtomicBool,
    /// Number of misses since its names were last known.
    misses: AtomicU32,
    /// Minimum number of names that it had when it was last read.
    size: AtomicU32,
    /// Number of times its contents were replaced or dropped.
    replacements: AtomicU64,
}

struct Known {
    /// Hashes of the names, each in the form of [remembered].
    names: HashSet<u64>,
    /// Hashes of names that were changed since.
    unsure: HashSet<u64>,
    has_whiteouts: bool,
    /// Whether some names are, or may be, those of devices: a device may be a whiteout.
    has_devices: bool,
    times: Times,
    /// Whether, when it was read, no later change could have these times.
    is_settled: bool,
    checked: Instant,
    charge: Charge,
}

/// Times of a directory's last change. Its mtime may have been set back since, but not its ctime.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    mtime: Timestamp,
    ctime: Timestamp,
}

impl Times {
    pub(crate) fn of(attributes: &Attributes) -> Self {
        Self { mtime: attributes.mtime, ctime: attributes.ctime }
    }

    fn are_settled(self) -> bool {
        is_settled(self.mtime) && is_settled(self.ctime)
    }
}

/// Objects that a directory may have at a name.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) may_have_object: bool,
    /// A whiteout that is a file of its own.
    pub(crate) may_have_whiteout: bool,
    /// The object may be a directory, or a device, which may be a whiteout.
    pub(crate) may_have_other: bool,
}

/// The result that requires a full query.
pub(crate) const ANYTHING: Answer = Answer { may_have_object: true, may_have_whiteout: true, may_have_other: true };

impl Answer {
    /// Returns whether the directory has neither.
    pub(crate) fn is_nothing(self) -> bool {
        !self.may_have_object && !self.may_have_whiteout
    }

    /// Returns whether the object at the name is neither a directory nor a device, and has no whiteout beside it.
    pub(crate) fn is_file(self) -> bool {
        self.may_have_object && !self.may_have_whiteout && !self.may_have_other
    }
}

/// Result of reading a whole directory.
pub(crate) struct Whole<T> {
    /// Hashes of its names, each in the form of [remembered].
    pub(crate) names: T,
    pub(crate) has_whiteouts: bool,
    pub(crate) has_devices: bool,
    /// Its times before it was read.
    pub(crate) times: Times,
}

impl Names {
    /// The empty cache of an object of that kind.
    pub(crate) fn of(kind: FileKind) -> Self {
        Self((kind == FileKind::Directory).then(|| NameCache::new(&BUDGET)))
    }

    /// Queries what the directory may have at a name.
    pub(crate) fn ask(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<Answer> {
        self.0.as_ref().map_or(Ok(ANYTHING), |cache| cache.ask(directory, stored))
    }

    /// Returns whether the directory is known, without a query, to have nothing at a name.
    pub(crate) fn excludes(&self, stored: Name<'_>) -> bool {
        self.0.as_ref().is_some_and(|cache| cache.excludes(stored))
    }

    /// Returns whether it is known, without a query, what the directory has at a name: nothing, or a file without a whiteout.
    pub(crate) fn tell(&self, stored: Name<'_>) -> bool {
        let Some(cache) = &self.0 else { return false };
        let known = cache.read();
        let answer = known.as_ref().filter(|known| known.is_believed()).map(|known| known.answer(stored));
        answer.is_some_and(|answer| answer.is_nothing() || answer.is_file())
    }

    /// Fills the cache from a complete read of the directory, during which this union has changed no name.
    pub(crate) fn learn_from(&self, whole: Whole<impl Iterator<Item = u64>>) {
        if let Some(cache) = &self.0 {
            cache.learn_from(whole);
        }
    }

    /// Records a miss: the directory was queried, and has nothing at the name.
    pub(crate) fn has_missed(&self) {
        if let Some(cache) = &self.0 {
            cache.misses.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of times the contents were replaced. If this has changed since a query, [`Names::is_outdated`] says nothing about
    /// the basis of its result: another thread has filled or dropped the cache meanwhile.
    pub(crate) fn replacements(&self) -> u64 {
        self.0.as_ref().map_or(0, |cache| cache.replacements.load(Ordering::Acquire))
    }

    /// Returns whether the cache has contents, which may be [outdated](Names::is_outdated).
    pub(crate) fn are_known(&self) -> bool {
        self.0.as_ref().is_some_and(|cache| cache.read().is_some())
    }

    /// Returns whether somebody else may have changed the directory since its names were cached, and drops them if so.
    pub(crate) fn is_outdated(&self, directory: &VnodeRef) -> Result<bool> {
        self.0.as_ref().map_or(Ok(false), |cache| cache.is_outdated(directory))
    }

    /// Records that a name in the directory, or its whiteout, may have changed.
    pub(crate) fn changed(&self, stored: u64) {
        if let Some(cache) = &self.0 {
            cache.changed(stored);
        }
    }

    /// Records that any name in the directory may have changed.
    pub(crate) fn forget(&self) {
        if let Some(cache) = &self.0 {
            cache.forget();
        }
    }
}

impl NameCache {
    fn new(budget: &'static Budget) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            budget,
            known: RwLock::default(),
            is_queued: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            misses: AtomicU32::new(0),
            size: AtomicU32::new(0),
            replacements: AtomicU64::new(0),
        })
    }

    fn ask(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<Answer> {
        if let Some(known) = self.read().as_ref().filter(|known| known.is_believed()) {
            self.note_use();
            return Ok(known.answer(stored));
        }
        if self.misses.load(Ordering::Relaxed) < self.price() {
            return Ok(ANYTHING);
        }
        self.learn(directory)?;
        self.budget.make_room();
        Ok(self.read().as_ref().map_or(ANYTHING, |known| known.answer(stored)))
    }

    fn excludes(&self, stored: Name<'_>) -> bool {
        let known = self.read();
        let excludes = known.as_ref().is_some_and(|known| known.is_believed() && known.answer(stored).is_nothing());
        if excludes {
            self.note_use();
        }
        excludes
    }

    fn learn_from(&self, whole: Whole<impl Iterator<Item = u64>>) {
        let Whole { names, has_whiteouts, has_devices, times } = whole;
        let names: HashSet<u64> = names.take(NAMES_MAX as usize + 1).collect();
        if names.len() <= NAMES_MAX as usize {
            self.size.store(names.len() as u32, Ordering::Relaxed);
            let (unsure, checked, is_settled) = (HashSet::new(), Instant::now(), times.are_settled());
            let charge = Charge::new(self.budget, names.len());
            let known = Known { names, unsure, has_whiteouts, has_devices, times, is_settled, checked, charge };
            self.replace(&mut self.write(), Some(known));
            self.budget.make_room();
        }
    }

    fn is_outdated(&self, directory: &VnodeRef) -> Result<bool> {
        let Some((times, is_settled)) = self.read().as_ref().map(|known| (known.times, known.is_settled)) else {
            return Ok(false);
        };
        let is_outdated = !is_settled || times != Times::of(&directory.getattr(&Caller::server())?);
        if is_outdated {
            self.forget();
        }
        Ok(is_outdated)
    }

    fn changed(&self, stored: u64) {
        if self.read().is_some() {
            let mut known = self.write();
            if let Some(inside) = &mut *known {
                if inside.unsure.insert(stored) {
                    inside.charge.grow();
                }
                if inside.unsure.len() > UNSURE_MAX {
                    self.replace(&mut known, None);
                }
            }
        }
    }

    fn forget(&self) {
        if self.read().is_some() {
            self.replace(&mut self.write(), None);
        }
    }

    /// Number of misses before the directory is read.
    fn price(&self) -> u32 {
        1 + self.size.load(Ordering::Relaxed) / NAMES_PER_MISS
    }

    /// Reads the directory, unless it is unchanged.
    fn learn(&self, directory: &VnodeRef) -> Result<()> {
        let times = Times::of(&directory.getattr(&Caller::server())?);
        let mut known = self.write();
        if let Some(same) = known.as_mut().filter(|known| known.is_settled && known.times == times) {
            same.checked = Instant::now();
            return Ok(());
        }
        self.replace(&mut known, None);
        let limit = self.size.load(Ordering::Relaxed).saturating_mul(8).clamp(NAMES_AT_FIRST, NAMES_MAX);
        let read = Known::read(directory, times, limit, self.budget)?;
        let size = read.as_ref().map_or(limit, |known| known.names.len() as u32);
        self.size.store(size, Ordering::Relaxed);
        self.misses.store(0, Ordering::Relaxed);
        // A concurrent reader of `replacements` has seen that the contents were dropped.
        self.set(&mut known, read);
        Ok(())
    }

    /// Replaces the contents, by nothing or by what was just read.
    fn replace(&self, known: &mut Option<Box<Known>>, by: Option<Known>) {
        self.set(known, by);
        self.replacements.fetch_add(1, Ordering::Release);
    }

    fn set(&self, known: &mut Option<Box<Known>>, to: Option<Known>) {
        *known = to.map(Box::new);
        if known.is_some() && !self.is_queued.swap(true, Ordering::SeqCst) {
            self.budget.enqueue(Weak::clone(&self.this));
        }
    }

    /// Records a use, so that it is not the first to be evicted.
    fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Box<Known>>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<Box<Known>>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The names of a directory; `None` if they exceed `limit`.
    fn read(directory: &VnodeRef, times: Times, limit: u32, budget: &'static Budget) -> Result<Option<Self>> {
        let server = Caller::server();
        let (mut names, mut has_whiteouts, mut has_devices) = (HashSet::new(), false, false);
        let (checked, is_settled) = (Instant::now(), times.are_settled());
        directory.open_directory(&server)?.read(&server, 0, &mut |entry| {
            has_whiteouts |= whiteout::is_special(entry.name.as_bytes());
            has_devices |= may_be_device(entry.kind);
            names.insert(remembered(hash(entry.name.as_bytes()), entry.kind));
            if names.len() > limit as usize { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let unsure = HashSet::new();
        let is_whole = names.len() <= limit as usize;
        Ok(is_whole.then(|| {
            let charge = Charge::new(budget, names.len());
            Self { names, unsure, has_whiteouts, has_devices, times, is_settled, checked, charge }
        }))
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
            && whiteout::whiteout_name(stored).is_ok_and(|name| self.names.contains(&as_file(hash(name.as_bytes()))));
        let (is_file, is_directory) =
            (self.names.contains(&as_file(hashed)), self.names.contains(&as_directory(hashed)));
        let may_have_object = is_file || is_directory;
        Answer { may_have_object, may_have_whiteout, may_have_other: is_directory || (is_file && self.has_devices) }
    }
}

/// Cached form of a name that is not a directory's: its hash with the last bit cleared.
fn as_file(hashed: u64) -> u64 {
    hashed & !1
}

/// Cached form of a directory's name: its hash with that bit set.
fn as_directory(hashed: u64) -> u64 {
    hashed | 1
}

/// Cached form of a name that is listed with this kind.
pub(crate) fn remembered(hashed: u64, kind: Option<FileKind>) -> u64 {
    if kind == Some(FileKind::Directory) { as_directory(hashed) } else { as_file(hashed) }
}

/// Returns whether an entry that is listed with this kind may be a device.
pub(crate) fn may_be_device(kind: Option<FileKind>) -> bool {
    matches!(kind, None | Some(FileKind::CharacterDevice))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1_000;

    fn learn(cache: &NameCache, names: std::ops::Range<u64>) {
        let times = Times { mtime: Timestamp::default(), ctime: Timestamp::default() };
        cache.learn_from(Whole { names, has_whiteouts: false, has_devices: false, times });
    }

    fn is_known(cache: &NameCache) -> bool {
        cache.read().is_some()
    }

    #[test]
    fn all_caches_together_hold_no_more_than_the_budget() {
        let budget: &Budget = Box::leak(Box::new(Budget::new(MAX)));
        let caches: Vec<_> = (0..100).map(|_| NameCache::new(budget)).collect();
        for cache in &caches {
            learn(cache, 0..100);
            assert!(budget.held() <= MAX, "{}", budget.held());
            assert!(is_known(cache), "the newest is kept");
        }
        assert!(caches.iter().filter(|cache| is_known(cache)).count() > 5);
        assert!(!is_known(&caches[0]), "the oldest has gone");
        let before = caches[0].replacements.load(Ordering::Acquire);
        assert!(before >= 2, "who has asked it sees that it forgot");
        caches[99].changed(1_000_000);
        drop(caches);
        assert_eq!(budget.held(), 0, "what is dropped is given back");
    }

    #[test]
    fn what_is_in_use_is_kept_for_longer() {
        let budget: &Budget = Box::leak(Box::new(Budget::new(MAX)));
        let used = NameCache::new(budget);
        learn(&used, 0..100);
        let others: Vec<_> = (0..50).map(|_| NameCache::new(budget)).collect();
        for other in &others {
            learn(other, 0..100);
            used.note_use();
        }
        assert!(is_known(&used));
        assert!(budget.held() <= MAX);
    }

    #[test]
    fn caches_that_are_gone_leave_nothing_in_the_budget() {
        let budget: &Budget = Box::leak(Box::new(Budget::new(MAX)));
        for _ in 0..100_000 {
            learn(&NameCache::new(budget), 0..1);
        }
        assert!(budget.queued() < 10_000, "{}", budget.queued());
    }

    #[test]
    fn only_directories_have_a_cache() {
        assert!(Names::of(FileKind::Regular).0.is_none());
        assert!(Names::of(FileKind::Directory).0.is_some());
    }
}
