//! Changes attributes: chmod, chown, truncate and utimensat in one.

use std::sync::atomic::Ordering;

use vnode::{Caller, Errno, FileKind, InodeNumber, Result, SetAttributes};

use crate::fat::entry_metadata::inline;
use crate::fat::volume::allocation::Near;
use crate::unix::changes;

use super::changing::Change;
use super::inode::{Inode, State};
use super::metadata::storable_mode;
use super::numbers::cluster_of;

/// Maximum size of a file in bytes.
pub(crate) const SIZE_MAX: u64 = u32::MAX as u64;

impl Inode {
    /// Does what takes long of a change of attributes, which follows. Called without any lock held.
    ///
    /// # Errors
    /// Those of the change.
    pub(crate) fn prepare_attributes(&self, caller: &Caller, changes: &SetAttributes) -> Result<()> {
        let Some(size) = changes.size.filter(|_| self.kind == FileKind::Regular) else { return Ok(()) };
        {
            let state = self.read();
            changes::check(&state.metadata.protection, caller, changes, SIZE_MAX)?;
            self.check_storable(&state, changes)?;
        }
        self.grow_in_parts(size)
    }

    /// Changes attributes, all or none.
    pub(crate) fn change_attributes(
        &self,
        _change: &Change<'_>,
        caller: &Caller,
        changes: &SetAttributes,
    ) -> Result<()> {
        self.check_usable()?;
        let has_ids = changes.uid.is_some() || changes.gid.is_some();
        let needs_record = has_ids || changes.mode.is_some() || changes.size.is_some() || changes.kill_privileges;
        self.volume.number_changed_owners(changes.uid, changes.gid)?;
        if changes.mode.is_some() {
            self.number_own_owner()?;
        }
        let mut state = if needs_record { self.write_with_record(0)? } else { self.write() };
        changes::check(&state.metadata.protection, caller, changes, SIZE_MAX)?;
        self.check_storable(&state, changes)?;
        if let Some(size) = changes.size {
            self.resize(&mut state, size)?;
        }
        let metadata = &mut state.metadata;
        if changes::apply(&mut metadata.protection, &mut metadata.times, caller, changes) {
            metadata.extended_attributes.forget_capability();
            metadata.forget_hidden_privileges();
        }
        if changes.mode.is_some() {
            metadata.hidden_mode = 0;
        }
        self.metadata_changed(&mut state);
        Ok(())
    }

    /// Makes sure that the entry can have the present owner and group, unless those are not known.
    fn number_own_owner(&self) -> Result<()> {
        let (uid, gid) = {
            let state = self.read();
            (state.metadata.protection.uid, state.metadata.protection.gid)
        };
        if [uid, gid].contains(&inline::UNKNOWN_ID) {
            Ok(())
        } else {
            self.volume.number_changed_owners(Some(uid), Some(gid))
        }
    }

    /// Checks that the volume can store the changes, and that the options do not hide them.
    ///
    /// # Errors
    /// `EPERM`.
    fn check_storable(&self, state: &State, changes: &SetAttributes) -> Result<()> {
        let protection = &state.metadata.protection;
        let mask = self.volume.options.mask(self.kind == FileKind::Directory);
        if self.volume.has_metadata() && changes.mode.is_some_and(|mode| mode & mask != 0) {
            return Err(Errno::EPERM);
        }
        if self.volume.has_sidecars {
            return Ok(());
        }
        if self.volume.entry_metadata.is_used() && !self.is_root() {
            let ids = (changes.uid.unwrap_or(protection.uid), changes.gid.unwrap_or(protection.gid));
            let keeps_ids = ids == (protection.uid, protection.gid);
            let is_storable = keeps_ids && changes.mode.is_none()
                || self.volume.entry_metadata.can_store(ids.0, ids.1, state.metadata.device);
            return if is_storable { Ok(()) } else { Err(Errno::EPERM) };
        }
        let keeps_ids =
            changes.uid.is_none_or(|uid| uid == protection.uid) && changes.gid.is_none_or(|gid| gid == protection.gid);
        let is_storable = |mode| storable_mode(mode, self.kind, &self.volume.options).is_some();
        if keeps_ids && changes.mode.is_none_or(is_storable) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Sets the size of a regular file, whose state the caller holds locked. What is added is zero.
    ///
    /// # Errors
    /// `EINVAL` for anything else; `EFBIG`, `ENOSPC`, `EIO`.
    pub(crate) fn resize(&self, state: &mut State, size: u64) -> Result<()> {
        if self.kind != FileKind::Regular {
            return Err(Errno::EINVAL);
        }
        if size > SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        self.data_version.fetch_add(1, Ordering::Relaxed);
        if size > state.size {
            if self.allocate(state, size)? < size {
                return Err(Errno::ENOSPC);
            }
            let zeroed = self.volume.access().zero(&self.chain, state.size, size);
            zeroed.inspect_err(|_| self.mark_truncated())?;
        } else if size < state.size {
            let used = self.volume.clusters_of(state.size);
            let mut chain = self.lock_chain();
            self.volume.access().approach(&mut chain, used.saturating_sub(1))?;
            chain.settle(&mut self.volume.lock_clusters(), &self.volume.storage, used)?;
            drop(chain);
            self.mark_truncated();
        }
        state.size = size;
        Ok(())
    }

    /// Allocates the clusters of a file for `size` bytes, as far as there are free ones. Returns the size that its clusters suffice for,
    /// `size` at most. Those that are too many are freed at the next synchronization.
    ///
    /// # Errors
    /// `ENOSPC` if nothing could be allocated; `EIO`, `ENOMEM`.
    pub(crate) fn allocate(&self, state: &State, size: u64) -> Result<u64> {
        let (used, wanted) = (self.volume.clusters_of(state.size), self.volume.clusters_of(size));
        if wanted <= used {
            return Ok(size);
        }
        let first = first_near(self.number);
        let mut chain = self.lock_chain();
        self.volume.access().approach(&mut chain, used.saturating_sub(1))?;
        let length = chain.extend(&mut self.volume.lock_clusters(), &self.volume.storage, (used, wanted), first)?;
        drop(chain);
        if length < wanted {
            self.mark_truncated();
        }
        Ok(size.min(u64::from(length) * u64::from(self.volume.storage.geometry().cluster_size())))
    }
}

/// Returns where the first cluster of an object without clusters is to be: at its number, which is held for it.
fn first_near(number: InodeNumber) -> Near {
    cluster_of(number).map_or(Near::Start, Near::Exactly)
}
