//! Synchronization: brings the changes in memory to the disk, in an order in which a power failure does no harm.
//!
//! Data and the table are stable before entries refer to them; all changed blocks of directories become stable together, through the
//! journal if there are several; and clusters that entries no longer refer to are free only after that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};

use vnode::{Errno, Result};

use crate::fat::format::FatWidth;
use crate::fat::journal::format::BLOCK_SIZE;
use crate::fat::journal::{BlockWrite, write_in_place};
use crate::fat::options::MirrorMode;
use crate::fat::volume::chain::{Chain, free_chain};
use crate::fat::volume::growth;
use crate::fat::volume::pages::ChangedBlock;
use crate::fat::volume::state;

use super::inode::Inode;
use super::pending::LinkOrder;
use super::snapshot::Snapshot;
use super::volume::{SyncState, Volume};

/// Number of synchronizations after which everything is on the disk.
const SYNCS_AT_END: usize = 4;

impl Volume<Inode> {
    /// Makes stable whatever was changed before the call.
    ///
    /// # Errors
    /// `EIO` if this or an earlier write failed.
    pub(crate) fn synchronize(&self) -> Result<()> {
        if self.storage.is_read_only() {
            return Ok(());
        }
        let begun = self.syncs_begun.load(Ordering::Acquire);
        let mut sync = self.lock_synchronization();
        if self.storage.has_failed() {
            return Err(Errno::EIO);
        }
        if sync.has_ended {
            return Ok(());
        }
        if self.syncs_begun.load(Ordering::Acquire) > begun {
            // One that began after the call had everything, whether it succeeded or not.
            return sync.last_result;
        }
        self.run(&mut sync)
    }

    /// Makes stable whatever was changed before the call, and reports what no later synchronization brings back: data that a failed one
    /// has lost. `reported` is the number of failed ones that the caller knows of.
    ///
    /// # Errors
    /// As [`Volume::synchronize`]; `EIO` if one failed since the last report.
    pub(crate) fn synchronize_and_report(&self, reported: &AtomicU64) -> Result<()> {
        let result = self.synchronize();
        let failed = self.failed_syncs.load(Ordering::Acquire);
        let is_new = reported.swap(failed, Ordering::AcqRel) < failed;
        result.and(if is_new { Err(Errno::EIO) } else { Ok(()) })
    }

    /// Returns whether a synchronization would change the disk.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.lock_pending().is_empty() || self.lock_clusters().table().is_dirty()
    }

    /// Makes everything stable, marks the volume as unmounted, and refuses all changes from here on.
    ///
    /// # Errors
    /// `EIO` if this or an earlier write failed: the volume stays marked as in use then.
    pub(crate) fn end(&self) -> Result<()> {
        let mut sync = self.lock_synchronization();
        if std::mem::replace(&mut sync.has_ended, true) {
            return Ok(());
        }
        self.is_ending.store(true, Ordering::Release);
        // What is running is completed and stored; what begins later is refused.
        drop(self.close_barrier());
        let result = match () {
            () if self.storage.is_read_only() => Ok(()),
            () if self.storage.has_failed() => Err(Errno::EIO),
            () => self.finish(&mut sync),
        };
        self.storage.end();
        drop(sync);
        // What is left refers to the volume.
        let pending = std::mem::take(&mut *self.lock_pending());
        let loaded = std::mem::take(&mut *self.lock_loaded());
        drop((pending, loaded));
        result
    }

    /// Locks the state of synchronization.
    pub(crate) fn lock_synchronization(&self) -> MutexGuard<'_, SyncState> {
        self.synchronization.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the volume on the disk as in use, or as unmounted.
    ///
    /// # Errors
    /// As [`crate::fat::volume::storage::Storage::write`].
    pub(crate) fn mark(&self, sync: &mut SyncState, is_dirty: bool) -> Result<()> {
        let changes = {
            let mut clusters = self.lock_clusters();
            state::mark(&self.storage, clusters.table(), is_dirty)?;
            clusters.table().take_changes().0
        };
        self.store_table(sync, &changes, (true, false))?;
        sync.is_marked = is_dirty;
        Ok(())
    }

    /// Synchronizes once.
    ///
    /// # Errors
    /// `EIO`, after which the volume is read-only.
    pub(crate) fn run(&self, sync: &mut SyncState) -> Result<()> {
        self.syncs_begun.fetch_add(1, Ordering::AcqRel);
        sync.last_result = self.write_changes(sync);
        if sync.last_result.is_err() {
            self.failed_syncs.fetch_add(1, Ordering::AcqRel);
        }
        sync.last_result
    }

    /// Collects the changes, writes them, and frees what nothing refers to after that.
    fn write_changes(&self, sync: &mut SyncState) -> Result<()> {
        let snapshot = {
            let _barrier = self.close_barrier();
            self.snapshot().map_err(|errno| self.storage.fail("changes could not be collected", errno))?
        };
        if let Err(errno) = self.write_snapshot(sync, &snapshot) {
            let errno = self.storage.fail("a synchronization failed", errno);
            if self.storage.continues() {
                self.take_back(snapshot);
            }
            return Err(errno);
        }
        for directory in &snapshot.directories {
            directory.write().is_being_written = false;
        }
        self.release(snapshot).map_err(|errno| self.storage.fail("clusters could not be freed", errno))
    }

    fn write_snapshot(&self, sync: &mut SyncState, snapshot: &Snapshot) -> Result<()> {
        let storage = &self.storage;
        let is_mirrored = self.options.mirror == MirrorMode::Always;
        let (early, late) = growth::split(storage.geometry().width(), &snapshot.table, &snapshot.grown);
        self.store_table(sync, &early, (is_mirrored, snapshot.has_split_entry))?;
        if !late.is_empty() {
            // A new cluster of a directory, which nothing but its link makes a part of it, is zero and not free on the disk.
            self.store_table(sync, &late, (is_mirrored, snapshot.has_split_entry))?;
        }
        match (&snapshot.blocks[..], &mut sync.journal) {
            ([], _) => Ok(()),
            (blocks @ [_, _, ..], Some(journal)) => {
                let capacity = journal.capacity().max(1);
                blocks.chunks(capacity).try_for_each(|blocks| journal.write(storage, blocks))
            }
            (blocks, _) => self.write_in_order(snapshot, blocks),
        }
    }

    /// Writes changed blocks of directories in place, those of the store before or after the others.
    fn write_in_order(&self, snapshot: &Snapshot, blocks: &[BlockWrite]) -> Result<()> {
        let (before, rest) = blocks.split_at(snapshot.store_blocks.start);
        let (store, after) = rest.split_at(snapshot.store_blocks.len());
        let steps = match snapshot.link_order {
            None => [vec![before, store, after], vec![]],
            Some(LinkOrder::StoreFirst) => [vec![store], vec![before, after]],
            Some(LinkOrder::StoreLast) => [vec![before, after], vec![store]],
        };
        for step in steps {
            if step.iter().any(|part| !part.is_empty()) {
                step.into_iter().try_for_each(|part| write_in_place(&self.storage, part))?;
                self.storage.flush()?;
            }
        }
        Ok(())
    }

    /// Writes changed blocks of the table to the first copy, and if `is_mirrored` to the others, and makes them stable together with all
    /// writes before. Only then do they count as written: what a failed flush has lost is written again.
    fn store_table(
        &self,
        sync: &mut SyncState,
        blocks: &[ChangedBlock],
        (is_mirrored, has_split_entry): (bool, bool),
    ) -> Result<()> {
        for (index, table) in self.storage.geometry().used_fats().enumerate() {
            if index > 0 && !is_mirrored {
                break;
            }
            let writes = self.table_writes(table, blocks)?;
            let fits = |capacity| (2..=capacity).contains(&writes.len());
            match &mut sync.journal {
                // An entry of 12 bits in two blocks must not be half of another.
                Some(journal) if has_split_entry && index == 0 && fits(journal.capacity()) => {
                    debug_assert_eq!(self.storage.geometry().width(), FatWidth::Fat12);
                    self.storage.flush()?;
                    journal.write(&self.storage, &writes)?;
                }
                _ => write_in_place(&self.storage, &writes)?,
            }
        }
        self.storage.flush()?;
        self.lock_clusters().table().written(blocks, is_mirrored);
        Ok(())
    }

    fn table_writes(&self, table: u8, blocks: &[ChangedBlock]) -> Result<Vec<BlockWrite>> {
        let start = self.storage.geometry().fat_offset(table).ok_or(Errno::EIO)?;
        let write = |block: &ChangedBlock| {
            let bytes: [u8; BLOCK_SIZE] = block.bytes[..].try_into().map_err(|_| Errno::EIO)?;
            Ok(BlockWrite { offset: start + block.offset, bytes })
        };
        blocks.iter().map(write).collect()
    }

    /// Frees the clusters that nothing on the disk refers to any more.
    fn release(&self, snapshot: Snapshot) -> Result<()> {
        for chain in &snapshot.frees {
            free_chain(&mut self.lock_clusters(), &self.storage, chain.first, chain.length_max)?;
        }
        for (inode, needed) in &snapshot.truncated {
            let state = inode.write();
            if !state.is_unlinked(inode) {
                let kept = self.clusters_of(state.size).max(*needed).max(state.reserved_clusters);
                let mut chain = inode.lock_chain();
                self.access().approach(&mut chain, kept.saturating_sub(1))?;
                chain.cut(&mut self.lock_clusters(), &self.storage, kept)?;
            }
        }
        Ok(())
    }

    fn finish(&self, sync: &mut SyncState) -> Result<()> {
        self.free_unlinked();
        for _ in 0..SYNCS_AT_END {
            if !self.is_dirty() {
                break;
            }
            self.run(sync)?;
        }
        if !sync.is_marked {
            return self.storage.flush();
        }
        self.write_mirrors()?;
        let free_clusters = self.free_clusters()?;
        let next_free = self.lock_clusters().table().lowest_free();
        state::write_free_clusters(&self.storage, free_clusters, next_free)?;
        self.storage.flush()?;
        if self.is_trusted && !self.storage.is_damaged() { self.mark(sync, false) } else { Ok(()) }
    }

    /// Frees what objects have that are still in use: all clusters without a name, after which they cannot be read, and reserved ones.
    fn free_unlinked(&self) {
        for inode in self.live.all() {
            let mut state = inode.write();
            if std::mem::take(&mut state.reserved_clusters) > 0 {
                inode.mark_truncated();
            }
            if state.is_unlinked(&inode) {
                let mut chain = inode.lock_chain();
                let length_max = chain.known_length().unwrap_or_else(|| self.clusters_of(state.size));
                self.free_later(chain.first(), length_max);
                *chain = Chain::new(0);
            }
        }
    }

    /// Writes what the copies of the table lack.
    fn write_mirrors(&self) -> Result<()> {
        let blocks = self.lock_clusters().table().unmirrored_blocks(&self.storage)?;
        for table in self.storage.geometry().used_fats().skip(1) {
            write_in_place(&self.storage, &self.table_writes(table, &blocks)?)?;
        }
        self.storage.flush()?;
        self.lock_clusters().table().written(&blocks, true);
        Ok(())
    }
}
