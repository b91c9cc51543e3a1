//! Zeros in parts: files that become much longer, and ranges that become zero, while others can have their changes stored.
//!
//! No synchronization runs while an operation makes changes. So what takes long is made in several changes, each of which leaves a file
//! that is right as it is: what others see of a file that grows is zero.

use std::sync::atomic::Ordering;

use vnode::{Errno, Result};

use super::attributes::SIZE_MAX;
use super::changing::Change;
use super::inode::Inode;

/// Maximum number of zeros that are written within one change, in bytes.
const ZEROS_MAX: u64 = 16 << 20;

impl Inode {
    /// Makes a file that is to have `size` bytes so long that little is missing. Called before the change that sets the size, which the
    /// caller may make, and without any lock held.
    ///
    /// # Errors
    /// As [`Inode::resize`]. The file has its size from before then.
    pub(crate) fn grow_in_parts(&self, size: u64) -> Result<()> {
        let (size_before, reserved_before) = {
            let state = self.read();
            (state.size, state.reserved_clusters)
        };
        // If somebody else shortens the file meanwhile, the change of the size does the rest.
        let parts = size.saturating_sub(size_before) / ZEROS_MAX;
        if parts == 0 || size > SIZE_MAX {
            return Ok(());
        }
        let result = (0..parts).try_for_each(|_| {
            self.let_others_be_stored();
            self.volume.change(|change| self.grow_by_part(change, size))
        });
        let is_restored = self.volume.change(|_| {
            let mut state = self.write();
            state.reserved_clusters = reserved_before;
            self.mark_truncated();
            if result.is_err() && state.size > size_before {
                self.resize(&mut state, size_before)?;
                self.metadata_changed(&mut state);
            }
            Ok(())
        });
        result.and(is_restored)
    }

    /// Waits for a synchronization that has begun: it could not overtake changes that follow each other without a pause.
    fn let_others_be_stored(&self) {
        drop(self.volume.lock_synchronization());
    }

    /// Adds zeros to a file. The clusters of all that will be added are reserved, so that a lack of space shows at once.
    fn grow_by_part(&self, _change: &Change<'_>, size: u64) -> Result<()> {
        let mut state = self.write();
        if self.allocate(&state, size)? < size {
            return Err(Errno::ENOSPC);
        }
        state.reserved_clusters = state.reserved_clusters.max(self.volume.clusters_of(size));
        let end = (state.size + ZEROS_MAX).min(size).max(state.size);
        self.resize(&mut state, end)?;
        self.metadata_changed(&mut state);
        Ok(())
    }

    /// Writes zeros to the part of a range that is within the file. Called without any lock held.
    ///
    /// # Errors
    /// `EROFS`, `EIO`, `ENOSPC`, `ENOMEM`.
    pub(crate) fn zero_in_parts(&self, offset: u64, end: u64) -> Result<()> {
        let mut position = offset;
        while position < end {
            let part_end = end.min(position.saturating_add(ZEROS_MAX));
            self.let_others_be_stored();
            self.volume.change(|_| {
                let state = self.write();
                self.data_version.fetch_add(1, Ordering::Relaxed);
                self.volume.access().zero(&self.chain, position, part_end.min(state.size))
            })?;
            position = part_end;
        }
        Ok(())
    }
}
