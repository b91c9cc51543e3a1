//! Records: space for them in the sidecar of a directory, before the changes that need it.

use std::sync::RwLockWriteGuard;

use vnode::{Errno, NAME_MAX, Result, Timestamp};

use crate::fat::format::{Entry, EntryAttributes};
use crate::fat::sidecar::store::{SIDECAR_NAME, Sidecar};

use super::inode::{Inode, State};
use super::metadata::Metadata;

/// Number of times that an operation follows an object that is renamed meanwhile.
const ATTEMPTS_MAX: usize = 100;

impl Inode {
    /// Locks the state of an object for a change that its record must have, which becomes larger by `growth` bytes at most. Called
    /// without any lock of an inode held.
    ///
    /// # Errors
    /// `ENOSPC` if the record has no room; `EIO`, `ENOMEM`.
    pub(crate) fn write_with_record(&self, growth: usize) -> Result<RwLockWriteGuard<'_, State>> {
        for _ in 0..ATTEMPTS_MAX {
            if !self.volume.has_sidecars {
                break;
            }
            let size = self.record_size(&self.read().metadata) + growth as u64;
            let parent = self.parent_directory();
            match &parent {
                Some(parent) => parent.reserve_record(&mut parent.write(), size)?,
                None if self.is_root() => self.reserve_record(&mut self.write(), size)?,
                None => {}
            }
            let state = self.write();
            let is_same = match (&state.link, &parent) {
                (Some(link), Some(parent)) => std::sync::Arc::ptr_eq(&link.parent, parent),
                (None, None) => true,
                _ => false,
            };
            if is_same {
                return Ok(state);
            }
        }
        Ok(self.write())
    }

    /// Returns the size of a record with this metadata, at most.
    pub(crate) fn record_size(&self, metadata: &Metadata) -> u64 {
        metadata.record(0, &self.volume.options).encoded_size(NAME_MAX)
    }

    /// Makes sure that the sidecar of this directory, whose state the caller holds locked, has room for a record of `size` bytes. Creates
    /// the sidecar if there is none. Does nothing on a volume without sidecars.
    ///
    /// # Errors
    /// `ENOSPC`; `EIO`, `ENOMEM`; `EEXIST` if something else has the sidecar's name.
    pub(crate) fn reserve_record(&self, state: &mut State, size: u64) -> Result<()> {
        if !self.volume.has_sidecars {
            return Ok(());
        }
        self.load(state)?;
        if self.lock_sidecar().is_none() {
            self.create_sidecar(state)?;
        }
        let reserved = match self.lock_sidecar().as_mut() {
            Some(sidecar) => sidecar.reserve(self.volume.access(), size),
            None => Err(Errno::EIO),
        };
        self.mark_contents_dirty(state);
        reserved
    }

    fn create_sidecar(&self, state: &mut State) -> Result<()> {
        let width = self.volume.storage.geometry().width();
        let existing = state.contents()?.find_short(&SIDECAR_NAME, Entry::is_hidden_file);
        let slot = match existing {
            None if state.contents()?.find(&self.volume.rules.dotted_short(&SIDECAR_NAME)).is_some() => {
                self.volume.report_taken_name();
                return Err(Errno::EEXIST);
            }
            Some(slot) => slot,
            None => {
                let created = self.volume.to_dos(Timestamp::now());
                let mut entry = Entry::new(SIDECAR_NAME, EntryAttributes::default());
                (entry.created, entry.accessed_date, entry.modified) = (created, created.date, created);
                let prepared = state.contents()?.prepare_short(entry);
                self.make_room(state, &prepared)?;
                state.contents_mut()?.insert(&prepared)?
            }
        };
        let sidecar = match Sidecar::create(self.volume.access(), slot, self.volume.log_max()) {
            Ok(sidecar) => sidecar,
            Err(errno) => {
                if existing.is_none() {
                    state.contents_mut()?.remove(slot);
                }
                return Err(errno);
            }
        };
        let (first, size) = sidecar.file();
        state.contents_mut()?.set_entry(slot, |entry| {
            let own = EntryAttributes::HIDDEN | EntryAttributes::SYSTEM | EntryAttributes::ARCHIVE;
            entry.attributes = own;
            entry.set_first_cluster(width, first);
            entry.size = size;
        });
        *self.lock_sidecar() = Some(sidecar);
        Ok(())
    }
}
