//! A mounted volume: the state shared by all inodes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use vnode::{Errno, InodeNumber, LiveTable, Result, Timestamp};

use crate::fat::entry_metadata::EntryMetadata;
use crate::fat::format::{CodePage, DosDateTime, Entry};
use crate::fat::journal::Journal;
use crate::fat::names::NameRules;
use crate::fat::options::{MetadataMode, Options};
use crate::fat::volume::allocation::Clusters;
use crate::fat::volume::data::DataAccess;
use crate::fat::volume::storage::Storage;

use super::metadata::Metadata;
use super::numbers::{Numbers, cluster_of};
use super::pending::{FreedChain, Pending};
use super::stamps::Stamps;
use super::sync_timer::SyncTimer;

/// Size up to which records of a directory are read in any case, in bytes.
const LOG_MIN: u64 = 4 << 20;
/// Size up to which records of a directory are read, in bytes.
const LOG_MAX: u64 = 32 << 20;

/// State of synchronization, which one thread at a time has.
pub(crate) struct SyncState {
    /// Present once it was needed.
    pub(crate) journal: Option<Journal>,
    /// A journal is wanted, and there was room for it so far.
    pub(crate) wants_journal: bool,
    /// The disk says that the volume is in use.
    pub(crate) is_marked: bool,
    /// The volume is no longer mounted.
    pub(crate) has_ended: bool,
    /// Result of the last synchronization.
    pub(crate) last_result: Result<()>,
}

/// What inodes of type `I` on one volume share.
pub(crate) struct Volume<I> {
    pub(crate) storage: Storage,
    pub(crate) clusters: Mutex<Clusters>,
    pub(crate) options: Options,
    pub(crate) rules: NameRules,
    /// Unix metadata is in sidecars.
    pub(crate) has_sidecars: bool,
    /// Unix metadata in entries.
    pub(crate) entry_metadata: EntryMetadata,
    /// The volume was unmounted before, so that chains end where they should.
    pub(crate) is_trusted: bool,
    /// Serial number, which handles have.
    pub(crate) serial: u32,
    pub(crate) stamps: Stamps,
    pub(crate) live: LiveTable<InodeNumber, I>,
    pub(crate) pending: Mutex<Pending<I>>,
    /// Maximum number of blocks of directories that are changed at a time.
    pub(crate) blocks_max: AtomicU64,
    /// Directories whose contents are in memory.
    pub(crate) loaded: Mutex<LoadedDirectories<I>>,
    /// Memory that the contents of directories take, in bytes.
    pub(crate) loaded_bytes: AtomicU64,
    pub(crate) synchronization: Mutex<SyncState>,
    /// Number of synchronizations that have begun.
    pub(crate) syncs_begun: AtomicU64,
    /// Number of synchronizations that have failed.
    pub(crate) failed_syncs: AtomicU64,
    /// The root directory, once it exists.
    pub(crate) root: OnceLock<Weak<I>>,
    /// The directory of objects with several names, once there is one.
    store: Mutex<Option<Arc<I>>>,
    /// Inode number of that directory; 0 without one.
    store_number: AtomicU64,
    /// The disk says that the volume is in use, and has a journal if it can.
    pub(crate) is_prepared: AtomicBool,
    /// No change is accepted any more.
    pub(crate) is_ending: AtomicBool,
    /// When changes are brought to the disk.
    pub(crate) timer: Arc<SyncTimer>,
    /// Called before the first change.
    pub(crate) first_change: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Reading updates access times: of files, of directories.
    pub(crate) updates_access_times: [AtomicBool; 2],
    numbers: Mutex<Numbers>,
    /// Held by operations that make changes, and exclusively while the changes that are made are collected.
    barrier: RwLock<()>,
    renames: Mutex<()>,
    /// The log says that a directory cannot have a sidecar.
    has_reported_name: AtomicBool,
    last_open: AtomicU64,
}

/// Directories by number, with the order in which they were loaded.
pub(crate) struct LoadedDirectories<I> {
    pub(crate) directories: HashMap<InodeNumber, (u64, Arc<I>)>,
    pub(crate) last: u64,
}

impl<I> Default for LoadedDirectories<I> {
    fn default() -> Self {
        Self { directories: HashMap::new(), last: 0 }
    }
}

/// What [`Volume::new`] needs besides the storage.
pub(crate) struct NewVolume {
    pub(crate) clusters: Clusters,
    pub(crate) options: Options,
    pub(crate) is_trusted: bool,
    pub(crate) serial: u32,
    pub(crate) has_sidecars: bool,
    pub(crate) entry_metadata: EntryMetadata,
    pub(crate) journal: OpenJournal,
}

/// The journal with which a volume is mounted.
#[derive(Debug)]
pub(crate) struct OpenJournal {
    /// Absent if the volume has none that can be used.
    pub(crate) journal: Option<Journal>,
    /// One is created if it is absent.
    pub(crate) is_wanted: bool,
}

impl<I> Volume<I> {
    /// Returns a volume without inodes.
    pub(crate) fn new(storage: Storage, new: NewVolume) -> Self {
        let page = CodePage::by_number(new.options.code_page).unwrap_or_default();
        let capacity = new.journal.journal.as_ref().map_or(u64::MAX, |journal| journal.capacity() as u64);
        Self {
            rules: NameRules { page, translation: new.options.translation },
            has_sidecars: new.has_sidecars,
            entry_metadata: new.entry_metadata,
            is_trusted: new.is_trusted,
            serial: new.serial,
            clusters: Mutex::new(new.clusters),
            synchronization: Mutex::new(SyncState {
                wants_journal: new.journal.is_wanted,
                journal: new.journal.journal,
                is_marked: false,
                has_ended: false,
                last_result: Ok(()),
            }),
            options: new.options,
            stamps: Stamps::default(),
            live: LiveTable::default(),
            pending: Mutex::default(),
            blocks_max: AtomicU64::new(capacity),
            loaded: Mutex::default(),
            loaded_bytes: AtomicU64::new(0),
            syncs_begun: AtomicU64::new(0),
            failed_syncs: AtomicU64::new(0),
            root: OnceLock::new(),
            store: Mutex::default(),
            store_number: AtomicU64::new(0),
            is_prepared: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            timer: Arc::default(),
            first_change: Mutex::default(),
            updates_access_times: [AtomicBool::new(true), AtomicBool::new(true)],
            numbers: Mutex::default(),
            barrier: RwLock::new(()),
            renames: Mutex::new(()),
            has_reported_name: AtomicBool::new(false),
            last_open: AtomicU64::new(0),
            storage,
        }
    }

    /// Returns the access to the data of chains.
    pub(crate) fn access(&self) -> DataAccess<'_> {
        DataAccess { storage: &self.storage, clusters: &self.clusters, block: self.options.block }
    }

    /// Returns whether objects have owners and modes of their own.
    pub(crate) fn has_metadata(&self) -> bool {
        self.has_sidecars || self.entry_metadata.is_used()
    }

    /// Returns what entries have, by the options and by themselves.
    pub(crate) fn coding(&self) -> (&Options, &EntryMetadata) {
        (&self.options, &self.entry_metadata)
    }

    /// Returns the time of creation by which the object of an entry is told from earlier ones; none if entries have none.
    pub(crate) fn stamp(&self, entry: &Entry) -> DosDateTime {
        if self.entry_metadata.is_used() { DosDateTime::default() } else { entry.created }
    }

    /// Rounds times to what the disk has, and forgets what it has not.
    pub(crate) fn round_times(&self, metadata: &mut Metadata) {
        if self.has_sidecars {
            return;
        }
        metadata.round_times(&self.options);
        if self.entry_metadata.is_used() {
            metadata.created = DosDateTime::default();
        }
        if self.entry_metadata.replaces_access_date() {
            metadata.times.atime = metadata.times.mtime;
        }
    }

    /// Says once that a directory cannot have a sidecar, because something else has its name.
    pub(crate) fn report_taken_name(&self) {
        if !self.has_reported_name.swap(true, Ordering::Relaxed) {
            let title = self.storage.title();
            tracing::error!(
                "{title}: a directory has a file or directory called PLYFS.ATR that is no hidden log of Unix metadata: no metadata can \
                 be stored there, and nothing be created; find it with `find MOUNTPOINT -iname PLYFS.ATR`, and rename it"
            );
        }
    }

    /// Returns the maximum size of the records of a directory in bytes.
    pub(crate) fn log_max(&self) -> u64 {
        (self.options.memory / 2).clamp(LOG_MIN, LOG_MAX)
    }

    /// Locks the clusters.
    pub(crate) fn lock_clusters(&self) -> MutexGuard<'_, Clusters> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the pending changes.
    pub(crate) fn lock_pending(&self) -> MutexGuard<'_, Pending<I>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the table of directories whose contents are in memory.
    pub(crate) fn lock_loaded(&self) -> MutexGuard<'_, LoadedDirectories<I>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the numbers.
    pub(crate) fn lock_numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the directory tree: only the holder of the lock moves objects between directories.
    pub(crate) fn lock_renames(&self) -> MutexGuard<'_, ()> {
        self.renames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the changes of an operation together: none of them is collected without the others.
    pub(crate) fn share_barrier(&self) -> RwLockReadGuard<'_, ()> {
        self.barrier.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no operation is making changes, and keeps others from beginning.
    pub(crate) fn close_barrier(&self) -> RwLockWriteGuard<'_, ()> {
        self.barrier.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the directory of objects with several names, if there is one.
    pub(crate) fn store(&self) -> Option<Arc<I>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the directory of objects with several names, which has this inode number.
    pub(crate) fn set_store(&self, number: InodeNumber, store: Arc<I>) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
        self.store_number.store(number.get(), Ordering::Release);
    }

    /// Gives up the directory of objects with several names, which refers to this volume.
    pub(crate) fn forget_store(&self) {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(store);
    }

    /// Returns whether this is the inode number of the directory of objects with several names.
    pub(crate) fn is_store(&self, number: InodeNumber) -> bool {
        self.store_number.load(Ordering::Acquire) == number.get()
    }

    /// Returns a number for an open file, never reused.
    pub(crate) fn next_open_number(&self) -> u64 {
        self.last_open.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the number of clusters that a file of `size` bytes needs.
    pub(crate) fn clusters_of(&self, size: u64) -> u32 {
        let cluster_size = u64::from(self.storage.geometry().cluster_size());
        u32::try_from(size.div_ceil(cluster_size)).unwrap_or(u32::MAX)
    }

    /// Returns a time as entries have it.
    pub(crate) fn to_dos(&self, time: Timestamp) -> DosDateTime {
        DosDateTime::encode(time, self.options.time_offset_minutes)
    }

    /// Frees a chain after the next synchronization.
    pub(crate) fn free_later(&self, first: u32, length_max: u32) {
        if first != 0 {
            self.lock_pending().frees.push(FreedChain { first, length_max });
        }
    }

    /// Returns the number of a new object that has this first cluster already.
    pub(crate) fn new_number_of_cluster(&self, cluster: u32) -> InodeNumber {
        let number = InodeNumber::new(cluster.into());
        // An unnamed file is in no entry, so that only the table of live objects has its number. Asked first: the cluster is in use, so
        // that no object gets its number from here on.
        let is_live = self.find_live(number).is_some();
        let mut numbers = self.lock_numbers();
        if is_live || numbers.is_taken(number) { numbers.other() } else { number }
    }

    /// Returns the number of a new object without clusters: that of a free cluster, which will be its first.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn new_number(&self) -> Result<InodeNumber> {
        let held = self.lock_clusters().hold_lowest(&self.storage)?;
        let mut numbers = self.lock_numbers();
        let number = held.map(|cluster| InodeNumber::new(cluster.into()));
        match number {
            Some(number) if !numbers.is_taken(number) && self.live.find(&number).is_none() => Ok(number),
            _ => {
                let other = numbers.other();
                drop(numbers);
                if let Some(cluster) = held {
                    self.lock_clusters().release(cluster);
                }
                Ok(other)
            }
        }
    }

    /// Notes that an object has another default number, or is gone. A number without clusters is kept for its object.
    pub(crate) fn rebind(&self, number: InodeNumber, before: Option<InodeNumber>, after: Option<InodeNumber>) {
        if before == after {
            return;
        }
        self.lock_numbers().rebind(number, before, after);
        let is_of_cluster = after.is_some_and(|after| cluster_of(after).is_some());
        if let Some(cluster) = cluster_of(number)
            && after.is_some()
            && !is_of_cluster
        {
            self.lock_clusters().hold(cluster);
        }
    }

    /// Ends the hold of the cluster that a number stands for.
    pub(crate) fn release_number(&self, number: InodeNumber) {
        if let Some(cluster) = cluster_of(number) {
            self.lock_clusters().release(cluster);
        }
    }

    /// Returns whether the options give all files their owners and modes.
    pub(crate) fn wants_sidecars(options: &Options, root_has_sidecar: bool) -> bool {
        match options.metadata {
            MetadataMode::Auto => root_has_sidecar,
            MetadataMode::None | MetadataMode::Inline | MetadataMode::Paper => false,
            MetadataMode::Sidecar => true,
        }
    }

    /// Returns the inode with this number, if it is in use.
    pub(crate) fn find_live(&self, number: InodeNumber) -> Option<Arc<I>> {
        self.live.find(&number)
    }

    /// Checks that an object can be changed.
    ///
    /// # Errors
    /// `EROFS`.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.storage.check_writable()
    }

    /// Returns whether an operation failed for lack of space that a synchronization gives back.
    pub(crate) fn can_retry(&self, errno: Errno) -> bool {
        errno == Errno::ENOSPC && (self.lock_pending().frees_clusters() || self.lock_clusters().has_cut_off())
    }
}
