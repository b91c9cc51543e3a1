//! Owners by number: entries of the root directory that give the users and groups of a volume their numbers.

use std::sync::Weak;

use vnode::{Errno, Result, Timestamp};

use crate::fat::entry_metadata::owners::OwnerEntry;
use crate::fat::format::{Entry, EntryAttributes, names_equal};

use super::inode::Inode;
use super::volume::Volume;

impl Volume<Inode> {
    /// Makes sure that new objects can have this owner, and this group or that of the directory. Called within a change, without any
    /// lock of an inode held. Does nothing where entries do not have owners by number.
    ///
    /// # Errors
    /// `ENOSPC` if there is no room for another owner; `EIO`, `ENOMEM`.
    pub(crate) fn number_owners(&self, uid: u32, gid: u32) -> Result<()> {
        self.number_changed_owners(Some(uid), Some(gid))?;
        self.number_changed_owners(Some(self.options.uid), Some(self.options.gid))
    }

    /// Makes sure that objects can have this owner and this group, as [`Volume::number_owners`].
    ///
    /// # Errors
    /// As [`Volume::number_owners`].
    pub(crate) fn number_changed_owners(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let needed = [uid.map(|uid| (false, uid)), gid.map(|gid| (true, gid))];
        for (is_group, id) in needed.into_iter().flatten() {
            let is_missing =
                || self.entry_metadata.owners().is_some_and(|owners| owners.missing(is_group, id).is_some());
            if is_missing() {
                let root = self.root.get().and_then(Weak::upgrade).ok_or(Errno::EROFS)?;
                root.add_owner(is_group, id)?;
            }
        }
        Ok(())
    }
}

impl Inode {
    /// Adds the entry of an owner to this directory, the root, unless another thread has done so.
    fn add_owner(&self, is_group: bool, id: u32) -> Result<()> {
        let mut state = self.write();
        self.load(&mut state)?;
        let missing = self.volume.entry_metadata.owners().and_then(|owners| owners.missing(is_group, id));
        let Some(owner) = missing else { return Ok(()) };
        let owner = owner.ok_or(Errno::ENOSPC)?;
        let now = self.volume.to_dos(Timestamp::now());
        let mut entry = Entry::new(owner.name(), EntryAttributes::HIDDEN | EntryAttributes::SYSTEM);
        (entry.created, entry.accessed_date, entry.modified) = (now, now.date, now);
        entry.modified.hundredths = 0;
        let prepared = state.contents()?.prepare_short(entry);
        self.make_room(&mut state, &prepared)?;
        state.contents_mut()?.insert(&prepared)?;
        self.mark_contents_dirty(&mut state);
        if let Some(mut owners) = self.volume.entry_metadata.owners() {
            owners.add(is_group, owner.number, id);
        }
        Ok(())
    }

    /// Returns whether an entry of this directory is that of an owner.
    pub(crate) fn is_owner_entry(&self, entry: &Entry) -> bool {
        self.is_root() && self.volume.entry_metadata.owners().is_some() && OwnerEntry::of(entry).is_some()
    }

    /// Returns whether a name in this directory, in code units, is one that entries of owners have.
    pub(crate) fn is_owner_name(&self, units: &[u16]) -> bool {
        if !self.is_root() || self.volume.entry_metadata.owners().is_none() || units.len() != "000003E8.U00".len() {
            return false;
        }
        let Ok(text) = String::from_utf16(units) else { return false };
        let mut name = [0; 11];
        let letters = text.bytes().filter(|&byte| byte != b'.').map(|byte| byte.to_ascii_uppercase());
        name.iter_mut().zip(letters).for_each(|(byte, letter)| *byte = letter);
        let owner = OwnerEntry::of_name(&crate::fat::format::ShortName(name));
        owner.is_some_and(|owner| names_equal(&self.volume.rules.dotted_short(&owner.name()), units))
    }
}
