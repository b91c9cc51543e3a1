//! Cache of the names in a directory of a branch: a name that only one of many branches has costs nothing in the others.
//!
//! A directory is read after a number of misses that grows with its size, unless it has just been changed, and the result is
//! trusted for a while. Names that this union changes are queried again; others' changes are detected by the directory's times
//! when that while is over, or when nothing is found. Two changes within one step of a coarse clock have the same times: a
//! negative result is trusted only if the directory has been unchanged for longer than that.
//!
//! All caches of a server together hold at most [`MAX_CACHED_NAMES`] names: see [`budget`].

mod budget;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Instant;

use hashbrown::HashSet;
use vnode::{Attributes, Caller, Cookie, FileKind, Name, Result, Timestamp, VnodeRef};

use crate::union::branch::directory_marks::is_settled;
use crate::union::branch::encoding::hash;
use crate::union::branch::health::CACHE_LIFETIME;
use crate::union::branch::whiteout;
use budget::{BudgetCharge, EvictableCache, NameBudget};

/// Number of names that can be read for about the cost of one miss.
const NAMES_PER_MISS: u32 = 16;
/// Number of names in the first read, which finds out how large the directory is.
const INITIAL_READ_LIMIT: u32 = 512;
/// Maximum number of names in a cached directory.
const MAX_DIRECTORY_NAMES: u32 = 1 << 15;
/// Maximum number of names in the caches of all directories together. One takes up to 20 bytes.
const MAX_CACHED_NAMES: usize = 1 << 20;
/// Maximum number of changed names before the directory is read again.
const MAX_CHANGED_NAMES: usize = 4096;

/// Names that all caches of the server may hold.
static NAME_BUDGET: NameBudget = NameBudget::new(MAX_CACHED_NAMES);

/// Cached names in a directory of a branch. Anything but a directory has no cache.
#[derive(Clone)]
pub(crate) struct CachedNames(Option<Arc<NameCache>>);

/// Size in bytes of an empty cache.
#[cfg(test)]
pub(crate) const CACHE_BYTES: usize = size_of::<NameCache>() + 2 * size_of::<usize>();

/// Cached names in one directory.
struct NameCache {
    this: Weak<NameCache>,
    budget: &'static NameBudget,
    contents: RwLock<Option<Box<CacheContents>>>,
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

struct CacheContents {
    /// Hashes of the names, each in the form of [cache_key].
    names: HashSet<u64>,
    /// Hashes of names that were changed since.
    changed: HashSet<u64>,
    has_whiteouts: bool,
    /// Whether some names are, or may be, those of devices: a device may be a whiteout.
    has_devices: bool,
    times: DirectoryTimes,
    /// Whether, when it was read, no later change could have these times.
    is_settled: bool,
    checked: Instant,
    charge: BudgetCharge,
}

/// Times of a directory's last change. Its mtime may have been set back since, but not its ctime.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryTimes {
    mtime: Timestamp,
    ctime: Timestamp,
}

impl DirectoryTimes {
    pub(crate) fn of(attributes: &Attributes) -> Self {
        Self { mtime: attributes.mtime, ctime: attributes.ctime }
    }

    fn are_settled(self) -> bool {
        is_settled(self.mtime) && is_settled(self.ctime)
    }
}

/// Objects that a directory may have at a name.
#[derive(Clone, Copy)]
pub(crate) struct NamePresence {
    pub(crate) may_have_object: bool,
    /// A whiteout that is a file of its own.
    pub(crate) may_have_whiteout: bool,
    /// The object may be a directory, or a device, which may be a whiteout.
    pub(crate) may_have_other: bool,
}

/// The result that requires a full query.
pub(crate) const UNKNOWN_PRESENCE: NamePresence =
    NamePresence { may_have_object: true, may_have_whiteout: true, may_have_other: true };

impl NamePresence {
    /// Returns whether the directory has neither.
    pub(crate) fn is_absent(self) -> bool {
        !self.may_have_object && !self.may_have_whiteout
    }

    /// Returns whether the object at the name is neither a directory nor a device, and has no whiteout beside it.
    pub(crate) fn is_file(self) -> bool {
        self.may_have_object && !self.may_have_whiteout && !self.may_have_other
    }
}

/// Result of reading a whole directory.
pub(crate) struct DirectoryScan<T> {
    /// Hashes of its names, each in the form of [cache_key].
    pub(crate) names: T,
    pub(crate) has_whiteouts: bool,
    pub(crate) has_devices: bool,
    /// Its times before it was read.
    pub(crate) times: DirectoryTimes,
}

impl CachedNames {
    /// The empty cache of an object of that kind.
    pub(crate) fn for_kind(kind: FileKind) -> Self {
        Self((kind == FileKind::Directory).then(|| NameCache::new(&NAME_BUDGET)))
    }

    /// Queries what the directory may have at a name.
    pub(crate) fn query(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<NamePresence> {
        self.0.as_ref().map_or(Ok(UNKNOWN_PRESENCE), |cache| cache.query(directory, stored))
    }

    /// Returns whether the directory is known, without a query, to have nothing at a name.
    pub(crate) fn excludes(&self, stored: Name<'_>) -> bool {
        self.0.as_ref().is_some_and(|cache| cache.excludes(stored))
    }

    /// Returns whether it is known, without a query, what the directory has at a name: nothing, or a file without a whiteout.
    pub(crate) fn is_conclusive(&self, stored: Name<'_>) -> bool {
        let Some(cache) = &self.0 else { return false };
        let contents = cache.read();
        let presence =
            contents.as_ref().filter(|contents| contents.is_fresh()).map(|contents| contents.presence_of(stored));
        presence.is_some_and(|presence| presence.is_absent() || presence.is_file())
    }

    /// Fills the cache from a complete read of the directory, during which this union has changed no name.
    pub(crate) fn fill_from(&self, whole: DirectoryScan<impl Iterator<Item = u64>>) {
        if let Some(cache) = &self.0 {
            cache.fill_from(whole);
        }
    }

    /// Records a miss: the directory was queried, and has nothing at the name.
    pub(crate) fn record_miss(&self) {
        if let Some(cache) = &self.0 {
            cache.misses.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of times the contents were replaced. If this has changed from before a query until after
    /// [`CachedNames::is_outdated`], the latter says nothing about the basis of the query's result: another thread has filled or
    /// dropped the cache meanwhile.
    pub(crate) fn replacements(&self) -> u64 {
        self.0.as_ref().map_or(0, |cache| cache.replacements.load(Ordering::Acquire))
    }

    /// Returns whether the cache has contents, which may be [outdated](CachedNames::is_outdated).
    pub(crate) fn has_contents(&self) -> bool {
        self.0.as_ref().is_some_and(|cache| cache.read().is_some())
    }

    /// Returns whether somebody else may have changed the directory since its names were cached, and drops them if so.
    pub(crate) fn is_outdated(&self, directory: &VnodeRef) -> Result<bool> {
        self.0.as_ref().map_or(Ok(false), |cache| cache.is_outdated(directory))
    }

    /// Records that a name in the directory, or its whiteout, may have changed.
    pub(crate) fn record_change(&self, stored: u64) {
        if let Some(cache) = &self.0 {
            cache.record_change(stored);
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
    fn new(budget: &'static NameBudget) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            budget,
            contents: RwLock::default(),
            is_queued: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            misses: AtomicU32::new(0),
            size: AtomicU32::new(0),
            replacements: AtomicU64::new(0),
        })
    }

    fn query(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<NamePresence> {
        if let Some(contents) = self.read().as_ref().filter(|contents| contents.is_fresh()) {
            self.record_use();
            return Ok(contents.presence_of(stored));
        }
        if self.misses.load(Ordering::Relaxed) < self.miss_threshold() {
            return Ok(UNKNOWN_PRESENCE);
        }
        self.reload(directory)?;
        self.budget.evict_excess();
        Ok(self.read().as_ref().map_or(UNKNOWN_PRESENCE, |contents| contents.presence_of(stored)))
    }

    fn excludes(&self, stored: Name<'_>) -> bool {
        let contents = self.read();
        let excludes =
            contents.as_ref().is_some_and(|contents| contents.is_fresh() && contents.presence_of(stored).is_absent());
        if excludes {
            self.record_use();
        }
        excludes
    }

    fn fill_from(&self, whole: DirectoryScan<impl Iterator<Item = u64>>) {
        let DirectoryScan { names, has_whiteouts, has_devices, times } = whole;
        let names: HashSet<u64> = names.take(MAX_DIRECTORY_NAMES as usize + 1).collect();
        if names.len() <= MAX_DIRECTORY_NAMES as usize {
            self.size.store(names.len() as u32, Ordering::Relaxed);
            let (changed, checked, is_settled) = (HashSet::new(), Instant::now(), times.are_settled());
            let charge = BudgetCharge::new(self.budget, names.len());
            let contents =
                CacheContents { names, changed, has_whiteouts, has_devices, times, is_settled, checked, charge };
            self.replace(&mut self.write(), Some(contents));
            self.budget.evict_excess();
        }
    }

    fn is_outdated(&self, directory: &VnodeRef) -> Result<bool> {
        let Some((times, is_settled)) = self.read().as_ref().map(|contents| (contents.times, contents.is_settled))
        else {
            return Ok(false);
        };
        let is_outdated = !is_settled || times != DirectoryTimes::of(&directory.getattr(&Caller::server())?);
        if is_outdated {
            self.forget();
        }
        Ok(is_outdated)
    }

    fn record_change(&self, stored: u64) {
        if self.read().is_some() {
            let mut contents = self.write();
            if let Some(inside) = &mut *contents {
                if inside.changed.insert(stored) {
                    inside.charge.grow();
                }
                if inside.changed.len() > MAX_CHANGED_NAMES {
                    self.replace(&mut contents, None);
                }
            }
        }
    }

    /// Number of misses before the directory is read.
    fn miss_threshold(&self) -> u32 {
        1 + self.size.load(Ordering::Relaxed) / NAMES_PER_MISS
    }

    /// Reads the directory, unless it is unchanged, or has changed just now.
    fn reload(&self, directory: &VnodeRef) -> Result<()> {
        let times = DirectoryTimes::of(&directory.getattr(&Caller::server())?);
        // While it is being changed, most that is asked about are new names: what is read would say nothing about them.
        if !times.are_settled() {
            self.forget();
            return Ok(());
        }
        let mut contents = self.write();
        if let Some(same) = contents.as_mut().filter(|contents| contents.is_settled && contents.times == times) {
            same.checked = Instant::now();
            return Ok(());
        }
        self.replace(&mut contents, None);
        let limit = self.size.load(Ordering::Relaxed).saturating_mul(8).clamp(INITIAL_READ_LIMIT, MAX_DIRECTORY_NAMES);
        let read = CacheContents::read(directory, times, limit, self.budget)?;
        let size = read.as_ref().map_or(limit, |contents| contents.names.len() as u32);
        self.size.store(size, Ordering::Relaxed);
        self.misses.store(0, Ordering::Relaxed);
        // A concurrent reader of `replacements` has seen that the contents were dropped.
        self.set(&mut contents, read);
        Ok(())
    }

    /// Replaces the contents, by nothing or by what was just read.
    fn replace(&self, contents: &mut Option<Box<CacheContents>>, by: Option<CacheContents>) {
        self.set(contents, by);
        self.replacements.fetch_add(1, Ordering::Release);
    }

    fn set(&self, contents: &mut Option<Box<CacheContents>>, to: Option<CacheContents>) {
        *contents = to.map(Box::new);
        if contents.is_some() && !self.is_queued.swap(true, Ordering::SeqCst) {
            let cache: Weak<dyn EvictableCache> = self.this.clone();
            self.budget.enqueue(cache);
        }
    }

    /// Records a use, so that it is not the first to be evicted.
    fn record_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Box<CacheContents>>> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<Box<CacheContents>>> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EvictableCache for NameCache {
    fn take_used(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    fn leave_queue(&self) {
        self.is_queued.store(false, Ordering::SeqCst);
    }

    fn forget(&self) {
        if self.read().is_some() {
            self.replace(&mut self.write(), None);
        }
    }
}

impl CacheContents {
    /// The names of a directory; `None` if they exceed `limit`.
    fn read(
        directory: &VnodeRef,
        times: DirectoryTimes,
        limit: u32,
        budget: &'static NameBudget,
    ) -> Result<Option<Self>> {
        let server = Caller::server();
        let (mut names, mut has_whiteouts, mut has_devices) = (HashSet::new(), false, false);
        let (checked, is_settled) = (Instant::now(), times.are_settled());
        directory.open_directory(&server)?.read(&server, Cookie::START, &mut |entry| {
            has_whiteouts |= whiteout::is_special(entry.name.as_bytes());
            has_devices |= may_be_device(entry.kind);
            names.insert(cache_key(hash(entry.name.as_bytes()), entry.kind));
            if names.len() > limit as usize { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let changed = HashSet::new();
        let is_whole = names.len() <= limit as usize;
        Ok(is_whole.then(|| {
            let charge = BudgetCharge::new(budget, names.len());
            Self { names, changed, has_whiteouts, has_devices, times, is_settled, checked, charge }
        }))
    }

    fn is_fresh(&self) -> bool {
        self.checked.elapsed() < CACHE_LIFETIME
    }

    fn presence_of(&self, stored: Name<'_>) -> NamePresence {
        let hashed = hash(stored.as_bytes());
        if !self.changed.is_empty() && self.changed.contains(&hashed) {
            return UNKNOWN_PRESENCE;
        }
        let may_have_whiteout = self.has_whiteouts
            && whiteout::whiteout_name(stored).is_ok_and(|name| self.names.contains(&file_key(hash(name.as_bytes()))));
        let (is_file, is_directory) =
            (self.names.contains(&file_key(hashed)), self.names.contains(&directory_key(hashed)));
        let may_have_object = is_file || is_directory;
        NamePresence {
            may_have_object,
            may_have_whiteout,
            may_have_other: is_directory || (is_file && self.has_devices),
        }
    }
}

/// Cached form of a name that is not a directory's: its hash with the last bit cleared.
fn file_key(hashed: u64) -> u64 {
    hashed & !1
}

/// Cached form of a directory's name: its hash with that bit set.
fn directory_key(hashed: u64) -> u64 {
    hashed | 1
}

/// Cached form of a name that is listed with this kind.
pub(crate) fn cache_key(hashed: u64, kind: Option<FileKind>) -> u64 {
    if kind == Some(FileKind::Directory) { directory_key(hashed) } else { file_key(hashed) }
}

/// Returns whether an entry that is listed with this kind may be a device.
pub(crate) fn may_be_device(kind: Option<FileKind>) -> bool {
    matches!(kind, None | Some(FileKind::CharacterDevice))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1_000;

    fn fill(cache: &NameCache, names: std::ops::Range<u64>) {
        let times = DirectoryTimes { mtime: Timestamp::default(), ctime: Timestamp::default() };
        cache.fill_from(DirectoryScan { names, has_whiteouts: false, has_devices: false, times });
    }

    fn is_known(cache: &NameCache) -> bool {
        cache.read().is_some()
    }

    #[test]
    fn caches_together_stay_within_the_budget() {
        let budget: &NameBudget = Box::leak(Box::new(NameBudget::new(MAX)));
        let caches: Vec<_> = (0..100).map(|_| NameCache::new(budget)).collect();
        for cache in &caches {
            fill(cache, 0..100);
            assert!(budget.used() <= MAX, "{}", budget.used());
            assert!(is_known(cache), "the newest is kept");
        }
        assert!(caches.iter().filter(|cache| is_known(cache)).count() > 5);
        assert!(!is_known(&caches[0]), "the oldest has gone");
        let before = caches[0].replacements.load(Ordering::Acquire);
        assert!(before >= 2, "who has asked it sees that it forgot");
        caches[99].record_change(1_000_000);
        drop(caches);
        assert_eq!(budget.used(), 0, "what is dropped is given back");
    }

    #[test]
    fn used_caches_are_evicted_later() {
        let budget: &NameBudget = Box::leak(Box::new(NameBudget::new(MAX)));
        let used = NameCache::new(budget);
        fill(&used, 0..100);
        let others: Vec<_> = (0..50).map(|_| NameCache::new(budget)).collect();
        for other in &others {
            fill(other, 0..100);
            used.record_use();
        }
        assert!(is_known(&used));
        assert!(budget.used() <= MAX);
    }

    #[test]
    fn dropped_caches_leave_the_queue() {
        let budget: &NameBudget = Box::leak(Box::new(NameBudget::new(MAX)));
        for _ in 0..100_000 {
            fill(&NameCache::new(budget), 0..1);
        }
        assert!(budget.queued() < 10_000, "{}", budget.queued());
    }

    #[test]
    fn only_directories_have_a_cache() {
        assert!(CachedNames::for_kind(FileKind::Regular).0.is_none());
        assert!(CachedNames::for_kind(FileKind::Directory).0.is_some());
    }
}
