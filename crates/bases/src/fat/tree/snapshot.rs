//! Snapshots: the changes in memory at one moment, in the form in which they go to the disk.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use vnode::{FileKind, InodeNumber, Result};

use crate::fat::journal::BlockWrite;
use crate::fat::sidecar::store::{Owner, SIDECAR_NAME};
use crate::fat::volume::pages::ChangedBlock;

use super::inode::Inode;
use super::pending::{FreedChain, LinkOrder, Pending};
use super::volume::Volume;

/// What a synchronization writes.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// Changed blocks of the table.
    pub(crate) table: Vec<ChangedBlock>,
    /// Two of them have parts of one entry.
    pub(crate) has_split_entry: bool,
    /// Changed blocks of directories.
    pub(crate) blocks: Vec<BlockWrite>,
    /// Which of them are the store's.
    pub(crate) store_blocks: Range<usize>,
    pub(crate) link_order: Option<LinkOrder>,
    /// Clusters that were the last ones of directories before these got more.
    pub(crate) grown: Vec<u32>,
    /// The directories of the blocks.
    pub(crate) directories: Vec<Arc<Inode>>,
    /// Chains that nothing refers to once the blocks are stable.
    pub(crate) frees: Vec<FreedChain>,
    /// Files that have more clusters than they need, and the number that they need on the disk.
    pub(crate) truncated: Vec<(Arc<Inode>, u32)>,
}

type Directories = HashMap<InodeNumber, Arc<Inode>>;

impl Volume<Inode> {
    /// Collects all changes. Nobody makes any meanwhile: the caller has closed the barrier.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`: the changes are part of the next snapshot then.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let taken = {
            let mut pending = self.lock_pending();
            let operations = pending.operations;
            std::mem::replace(&mut *pending, Pending { operations, ..Pending::default() })
        };
        let mut snapshot =
            Snapshot { grown: taken.grown, frees: taken.frees, link_order: taken.link_order, ..Snapshot::default() };
        let mut directories = taken.directories;
        for inode in taken.truncated.into_values() {
            let needed = self.clusters_of(inode.read().size);
            snapshot.truncated.push((inode, needed));
        }
        let collected = taken
            .inodes
            .values()
            .try_for_each(|inode| inode.store(&mut directories))
            .and_then(|()| directories.values().try_for_each(|directory| directory.clone().collect(&mut snapshot)));
        if let Err(errno) = collected {
            for inode in taken.inodes.values() {
                inode.mark_dirty(&mut inode.write());
            }
            self.lock_pending().directories.extend(directories);
            self.take_back(snapshot);
            return Err(errno);
        }
        let mut clusters = self.lock_clusters();
        let cut_off = clusters.take_cut_off();
        if self.is_trusted {
            snapshot.frees.extend(cut_off.into_iter().map(|first| FreedChain { first, length_max: u32::MAX }));
        }
        (snapshot.table, snapshot.has_split_entry) = clusters.table().take_changes();
        Ok(snapshot)
    }
}

impl Volume<Inode> {
    /// Makes the changes of a snapshot that could not be written part of the next one.
    pub(crate) fn take_back(&self, snapshot: Snapshot) {
        let offsets: HashSet<u64> = snapshot.blocks.iter().map(|block| block.offset).collect();
        for directory in snapshot.directories {
            let mut state = directory.write();
            if let Some(contents) = &mut state.contents {
                contents.not_written(&offsets);
            }
            if let Some(sidecar) = directory.lock_sidecar().as_mut() {
                sidecar.not_stable();
            }
            directory.mark_contents_dirty(&mut state);
        }
        for (inode, _) in snapshot.truncated {
            inode.mark_truncated();
        }
        self.lock_clusters().table().not_written(snapshot.has_split_entry);
        let mut pending = self.lock_pending();
        pending.link_order = pending.link_order.or(snapshot.link_order);
        pending.frees.extend(snapshot.frees);
        pending.grown.extend(snapshot.grown);
    }
}

impl Inode {
    /// Stores the attributes of this object in its entry and its record, and adds the directory that has them.
    fn store(&self, directories: &mut Directories) -> Result<()> {
        let (metadata, size, link) = {
            let mut state = self.write();
            state.is_dirty = false;
            (state.metadata.clone(), state.size, state.link.clone())
        };
        let options = &self.volume.options;
        let (holder, owner) = match &link {
            Some(link) => (link.parent.clone(), Owner::Slot(link.slot)),
            None if self.is_root() => (self.to_arc(), Owner::Root),
            None => return Ok(()),
        };
        let mut holder_state = holder.write();
        holder.load(&mut holder_state)?;
        if let Some(sidecar) = holder.lock_sidecar().as_mut() {
            sidecar.set(owner, Box::new(metadata.record(size, options)));
        }
        if let Some(link) = &link {
            let is_empty = size == 0 && self.kind != FileKind::Directory;
            let cluster = if is_empty { 0 } else { self.lock_chain().first() };
            let width = self.volume.storage.geometry().width();
            holder_state.contents_mut()?.set_entry(link.slot, |entry| {
                metadata.store(entry, self.volume.coding());
                entry.set_first_cluster(width, cluster);
                entry.size = u32::try_from(size).unwrap_or(u32::MAX);
            });
            self.set_stored_cluster(cluster);
        }
        drop(holder_state);
        directories.insert(holder.number, holder);
        Ok(())
    }

    /// Notes the first cluster that the entry of this object has.
    fn set_stored_cluster(&self, cluster: u32) {
        let mut state = self.write();
        let Some(link) = &mut state.link else { return };
        let before = link.default_number();
        link.cluster = cluster;
        let after = link.default_number();
        drop(state);
        self.volume.rebind(self.number, Some(before), Some(after));
    }

    /// Adds the changes of this directory.
    fn collect(self: Arc<Self>, snapshot: &mut Snapshot) -> Result<()> {
        let mut state = self.write();
        if state.is_unlinked(&self) {
            return Ok(());
        }
        self.load(&mut state)?;
        let width = self.volume.storage.geometry().width();
        let contents = state.contents_mut()?;
        if let Some(sidecar) = self.lock_sidecar().as_mut() {
            let flushed = sidecar.flush(self.volume.access(), contents)?;
            let (first, size) = sidecar.file();
            let slot = sidecar.slot();
            if !contents.entry(slot).is_some_and(|entry| entry.name == SIDECAR_NAME && entry.is_hidden_file()) {
                let details = format_args!("the entry of PLYFS.ATR is that of another file");
                return Err(self.volume.storage.damage("sidecar-invalid", details));
            }
            contents.set_entry(slot, |entry| {
                entry.set_first_cluster(width, first);
                entry.size = size;
            });
            snapshot.frees.extend(flushed.replaced.map(|first| FreedChain { first, length_max: u32::MAX }));
            if flushed.has_more {
                self.volume.lock_pending().directories.insert(self.number, self.clone());
            }
        }
        let first = snapshot.blocks.len();
        snapshot.blocks.extend(contents.take_changes());
        if self.is_store() {
            snapshot.store_blocks = first..snapshot.blocks.len();
        }
        state.is_being_written = true;
        drop(state);
        snapshot.directories.push(self);
        Ok(())
    }
}
