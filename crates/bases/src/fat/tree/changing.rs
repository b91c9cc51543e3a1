//! Changes: how operations begin that change something, and are repeated when space becomes free.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard, Weak};

use vnode::{Errno, Result, Timestamp};

use crate::fat::format::{Entry, EntryAttributes};
use crate::fat::journal::format::{BLOCK_SIZE, is_journal};
use crate::fat::journal::{JOURNAL_NAME, Journal};
use crate::fat::volume::allocation::Near;
use crate::fat::volume::chain::Chain;

use super::inode::Inode;
use super::pending::LinkOrder;
use super::volume::{SyncState, Volume};

/// Number of blocks of directories that an operation changes, at most.
const BLOCKS_PER_OPERATION: usize = 20;

/// Number of objects that are changed in memory at a time, at most, where no journal limits them.
const CHANGES_MAX: usize = 8192;

/// Number of synchronizations for which an operation waits that needs another order of writes.
const ORDER_ATTEMPTS: usize = 100;

/// Number of synchronizations for which an operation waits if nothing else is running.
const WAITS_MAX: usize = 3;

/// Proof that an operation may make changes, which reach the disk together.
pub(crate) struct Change<'a> {
    volume: &'a Volume<Inode>,
    _barrier: RwLockReadGuard<'a, ()>,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut pending = self.volume.lock_pending();
        pending.operations = pending.operations.saturating_sub(1);
        drop(pending);
        self.volume.timer.note_change();
    }
}

impl Volume<Inode> {
    /// Runs an operation that makes changes. If it fails for lack of space although clusters will be free, it runs again after a
    /// synchronization. Called without any lock held.
    ///
    /// # Errors
    /// `EROFS`; those of the operation.
    pub(crate) fn change<T>(&self, mut operation: impl FnMut(&Change<'_>) -> Result<T>) -> Result<T> {
        let mut attempt = || {
            let change = self.begin_change()?;
            operation(&change)
        };
        let mut result = attempt();
        for _ in 0..ORDER_ATTEMPTS {
            if result.is_ok() || !self.lock_pending().is_out_of_order {
                break;
            }
            self.synchronize()?;
            result = attempt();
        }
        if result.as_ref().is_err_and(|&errno| self.can_retry(errno)) {
            self.synchronize()?;
            result = attempt();
        }
        self.forget_contents();
        result
    }

    /// Notes that an operation changes names of objects in the store, before it does so. Where there is a journal, the order of writes
    /// does not matter.
    ///
    /// # Errors
    /// `EAGAIN` if the changes that were made before need the other order: [`Volume::change`] runs the operation again after a
    /// synchronization.
    pub(crate) fn order_links(&self, _change: &Change<'_>, order: LinkOrder) -> Result<()> {
        if self.has_journal() {
            return Ok(());
        }
        let mut pending = self.lock_pending();
        if *pending.link_order.get_or_insert(order) == order {
            return Ok(());
        }
        pending.is_out_of_order = true;
        Err(Errno::EAGAIN)
    }

    /// Returns whether blocks of directories reach the disk together.
    pub(crate) fn has_journal(&self) -> bool {
        self.blocks_max.load(Ordering::Acquire) != u64::MAX
    }

    /// Waits until the journal has room for the changes of one more operation, and begins it.
    fn begin_change(&self) -> Result<Change<'_>> {
        self.storage.check_writable()?;
        if !self.is_prepared.load(Ordering::Acquire) {
            self.prepare_changes()?;
        }
        for attempt in 0.. {
            let limit = usize::try_from(self.blocks_max.load(Ordering::Acquire)).unwrap_or(usize::MAX).min(CHANGES_MAX);
            let mut pending = self.lock_pending();
            let needed = pending.blocks_max() + BLOCKS_PER_OPERATION * (pending.operations + 1);
            // Alone, an operation fits however small the journal is. Beside others it could need a second batch, and would be torn.
            if needed <= limit || attempt >= WAITS_MAX && pending.operations == 0 {
                pending.operations += 1;
                break;
            }
            drop(pending);
            self.synchronize()?;
        }
        let change = Change { volume: self, _barrier: self.share_barrier() };
        if self.is_ending.load(Ordering::Acquire) { Err(Errno::EROFS) } else { Ok(change) }
    }

    /// Prepares the disk for the first change: marks the volume as in use, and creates the journal if there is none.
    ///
    /// # Errors
    /// `EIO`, after which the volume is read-only.
    fn prepare_changes(&self) -> Result<()> {
        let root = self.root.get().and_then(Weak::upgrade).ok_or(Errno::EROFS)?;
        let mut sync = self.lock_synchronization();
        if self.is_prepared.load(Ordering::Acquire) || sync.has_ended {
            return Ok(());
        }
        let first_change = self.first_change.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(first_change) = first_change {
            first_change();
        }
        self.mark(&mut sync, true)?;
        if sync.wants_journal && sync.journal.is_none() {
            match self.create_journal(&mut sync, &root) {
                Ok(()) => {}
                Err(Errno::ENOSPC) => {
                    sync.wants_journal = false;
                    tracing::warn!("{}: there is no room for a journal", self.storage.title());
                }
                Err(Errno::EEXIST) => {
                    sync.wants_journal = false;
                    let title = self.storage.title();
                    tracing::warn!("{title}: there is no journal, since another file is called PLYFS.JNL; rename that");
                }
                Err(errno) => return Err(errno),
            }
        }
        self.is_prepared.store(true, Ordering::Release);
        Ok(())
    }

    /// Creates the journal, and makes it stable. A file that has its name is replaced.
    ///
    /// # Errors
    /// `ENOSPC`; `EEXIST` if something that cannot be replaced has its name; `EIO`, `ENOMEM`.
    fn create_journal(&self, sync: &mut SyncState, root: &Inode) -> Result<()> {
        let size = Journal::preferred_size(&self.storage).ok_or(Errno::ENOSPC)?;
        let wanted = self.clusters_of(size);
        let mut chain = Chain::new(0);
        let length = chain.extend(&mut self.lock_clusters(), &self.storage, (0, wanted), Near::Start)?;
        let first = chain.first();
        let chain = Mutex::new(chain);
        let added = if length < wanted {
            Err(Errno::ENOSPC)
        } else {
            self.access().zero(&chain, 0, size).and_then(|()| self.add_journal_entry(root, first, size))
        };
        let mut chain = chain.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(errno) = added {
            chain.cut(&mut self.lock_clusters(), &self.storage, 0)?;
            return Err(errno);
        }
        self.run(sync)?;
        let runs = chain.runs(self.lock_clusters().table(), &self.storage, wanted)?;
        sync.journal = Journal::new(&self.storage, &runs, size);
        let capacity = sync.journal.as_ref().map_or(u64::MAX, |journal| journal.capacity() as u64);
        self.blocks_max.store(capacity, Ordering::Release);
        Ok(())
    }

    /// Gives the journal its name. Of two entries with that name, one would be found by chance.
    fn add_journal_entry(&self, root: &Inode, first: u32, size: u64) -> Result<()> {
        let own = EntryAttributes::HIDDEN | EntryAttributes::SYSTEM | EntryAttributes::ARCHIVE;
        let created = self.to_dos(Timestamp::now());
        let width = self.storage.geometry().width();
        let mut entry = Entry { created, modified: created, ..Entry::new(JOURNAL_NAME, own) };
        entry.modified.hundredths = 0;
        entry.accessed_date = created.date;
        entry.set_first_cluster(width, first);
        entry.size = size as u32;
        // Declared first, so that an inode whose last reference this is is dropped after the lock is released.
        let visible: Arc<Inode>;
        let mut state = root.write();
        root.load(&mut state)?;
        let contents = state.contents()?;
        let existing = contents.find_short(&JOURNAL_NAME, Entry::is_hidden_file);
        let existing = existing.or_else(|| contents.find(&self.rules.dotted_short(&JOURNAL_NAME)));
        if let Some((slot, before)) = existing.and_then(|slot| Some((slot, contents.entry(slot)?))) {
            if before.is_directory() {
                return Err(Errno::EEXIST);
            }
            if root.is_own_file(state.contents()?, slot) {
                let length_max = if self.is_trusted { u32::MAX } else { self.clusters_of(before.size.into()) };
                self.free_later(before.first_cluster(width), length_max);
                state.contents_mut()?.set_entry(slot, |old| *old = entry);
                root.mark_contents_dirty(&mut state);
                return Ok(());
            }
            // Others see this one, and may have it open. It was the journal before it lost its attributes, or is somebody's file.
            if !self.is_former_journal(&before) {
                return Err(Errno::EEXIST);
            }
            visible = root.child(&state, slot).map_err(|_| Errno::EEXIST)?;
            root.detach(&mut state, slot)?;
            visible.unlink_state(&mut visible.write());
        }
        let prepared = state.contents()?.prepare_short(entry);
        root.make_room(&mut state, &prepared)?;
        state.contents_mut()?.insert(&prepared)?;
        root.mark_contents_dirty(&mut state);
        Ok(())
    }
    /// Returns whether a file has the size and the beginning of a journal.
    fn is_former_journal(&self, entry: &Entry) -> bool {
        let chain = Mutex::new(Chain::new(entry.first_cluster(self.storage.geometry().width())));
        let mut block = [0; BLOCK_SIZE];
        Journal::is_valid_size(entry.size.into())
            && self.access().read(&chain, 0, &mut block).is_ok()
            && (block == [0; BLOCK_SIZE] || is_journal(&block))
    }
}
