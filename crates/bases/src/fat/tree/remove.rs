//! Removes names: unlink, rmdir.

use std::sync::Arc;

use vnode::{Caller, Errno, FileKind, Name, Result};

use crate::fat::directory::contents::Contents;
use crate::fat::sidecar::store::identity;
use crate::unix::permissions;

use super::changing::Change;
use super::inode::{Inode, Link, State};
use super::links::LockedStore;
use super::pending::LinkOrder;

impl Inode {
    /// Removes the name of a non-directory.
    pub(crate) fn remove_file(&self, change: &Change<'_>, caller: &Caller, name: Name<'_>) -> Result<()> {
        // Declared first, so that an inode whose last reference this is is dropped after the locks are released.
        let victim: Arc<Inode>;
        let store: Option<Arc<Inode>>;
        {
            let mut state = self.write();
            self.load(&mut state)?;
            let slot = self.find_slot(&state, caller, name)?;
            victim = self.child(&state, slot)?;
            store = self.volume.store().filter(|_| !victim.is_in(self, slot));
            let mut locked = store.as_deref().map(LockedStore::lock).transpose()?;
            let mut victim_state = victim.write();
            let (directory, object) = (&state.metadata.protection, &victim_state.metadata.protection);
            permissions::check_removal(directory, object, caller, false)?;
            if locked.is_some() {
                self.volume.order_links(change, LinkOrder::StoreLast)?;
            }
            self.detach(&mut state, slot)?;
            match &mut locked {
                Some(locked) => {
                    victim.forget_name(self, slot);
                    victim.drop_name(&mut victim_state, locked)?;
                }
                None => victim.unlink_state(&mut victim_state),
            }
        }
        store.map_or(Ok(()), |store| victim.move_out_of_store(&store))
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, _change: &Change<'_>, caller: &Caller, name: Name<'_>) -> Result<()> {
        let victim: Arc<Inode>;
        let mut state = self.write();
        self.load(&mut state)?;
        let slot = self.find_slot(&state, caller, name)?;
        victim = self.child(&state, slot)?;
        let mut victim_state = victim.write();
        let (directory, object) = (&state.metadata.protection, &victim_state.metadata.protection);
        permissions::check_removal(directory, object, caller, true)?;
        victim.load(&mut victim_state)?;
        if victim.has_entries(victim_state.contents()?) {
            return Err(Errno::ENOTEMPTY);
        }
        self.detach(&mut state, slot)?;
        victim.unlink_state(&mut victim_state);
        drop(victim_state);
        self.volume.forget_removed(victim.number);
        Ok(())
    }

    /// Removes an entry from this directory, and the record of its object.
    pub(crate) fn detach(&self, state: &mut State, slot: u32) -> Result<()> {
        let contents = state.contents_mut()?;
        if let Some(sidecar) = self.lock_sidecar().as_mut() {
            sidecar.remove(slot, identity(contents, slot, self.volume.access()));
        }
        contents.remove(slot);
        state.metadata.times.modified();
        self.metadata_changed(state);
        self.mark_contents_dirty(state);
        Ok(())
    }

    /// Makes this object, whose state the caller holds locked, one without a name after its entry is gone.
    pub(crate) fn unlink_state(&self, state: &mut State) {
        let Some(link) = self.set_link(state, None) else { return };
        self.forget_entry(&link);
        state.is_dirty = false;
        self.volume.stamps.retire(state.metadata.created, self.volume.options.time_offset_minutes);
        state.metadata.times.changed();
        // The clusters of the records of a directory.
        let sidecar = self.lock_sidecar().take();
        if let Some(sidecar) = &sidecar {
            self.volume.free_later(sidecar.file().0, u32::MAX);
        }
        self.drop_contents(state, sidecar.map_or(0, |sidecar| sidecar.memory()));
        if self.kind == FileKind::Directory {
            state.contents = Some(Contents::removed(self.volume.rules));
        }
        let forgotten = {
            let mut pending = self.volume.lock_pending();
            let inode = pending.inodes.remove(&self.number);
            (inode, pending.directories.remove(&self.number), pending.truncated.remove(&self.number))
        };
        drop(forgotten);
    }

    fn forget_entry(&self, link: &Link) {
        self.volume.rebind(self.number, Some(link.default_number()), None);
    }
}
