//! Statistics of a volume: statfs(2).

use std::sync::Arc;

use vnode::{Result, StatFs};

use super::inode::Inode;
use super::volume::Volume;

/// Maximum length of a name in bytes, and in UTF-16 code units.
const NAME_MAX: u32 = 255;

/// Number of pages of the table that are read at a time.
const PAGES_MAX: u32 = 64;

impl Volume<Inode> {
    /// Returns the statistics of the volume. What the next synchronization will free is free: writers that need it have it freed.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn statfs(&self) -> Result<StatFs> {
        let geometry = self.storage.geometry();
        let to_free = self.clusters_to_free();
        let free = u64::from(self.free_clusters()?);
        let free = (free + to_free).min(geometry.clusters().into());
        Ok(StatFs {
            block_size: geometry.cluster_size(),
            fragment_size: geometry.cluster_size(),
            blocks: geometry.clusters().into(),
            blocks_free: free,
            blocks_available: free,
            files: 0,
            files_free: 0,
            name_max: NAME_MAX,
        })
    }

    /// Returns the number of free clusters. The first call reads the whole table, in pieces, between which others use it.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(crate) fn free_clusters(&self) -> Result<u32> {
        loop {
            let counted = self.lock_clusters().table().count_free(&self.storage, PAGES_MAX)?;
            if let Some(free) = counted {
                return Ok(free);
            }
            std::thread::yield_now();
        }
    }

    /// Returns how many clusters the next synchronization will free, as far as the lengths of their chains are known.
    fn clusters_to_free(&self) -> u64 {
        let (of_removed, truncated) = {
            let pending = self.lock_pending();
            (pending.clusters_to_free(), pending.truncated.values().cloned().collect::<Vec<Arc<Inode>>>())
        };
        let unused = |inode: Arc<Inode>| {
            let state = inode.read();
            let needed = self.clusters_of(state.size).max(state.reserved_clusters);
            inode.lock_chain().known_length().map_or(0, |length| u64::from(length.saturating_sub(needed)))
        };
        of_removed + truncated.into_iter().map(unused).sum::<u64>()
    }
}
