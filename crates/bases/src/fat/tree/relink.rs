//! What objects that change places have in common: their entries, records and numbers.

use vnode::Result;

use crate::fat::format::Entry;
use crate::fat::sidecar::store::{Owner, identity};

use super::inode::{Inode, Link, State};

impl Inode {
    /// Removes the record of an entry of this directory, whose object the entry is no longer of.
    pub(crate) fn forget_record(&self, state: &mut State, slot: u32) -> Result<()> {
        let contents = state.contents()?;
        if let Some(sidecar) = self.lock_sidecar().as_mut() {
            sidecar.remove(slot, identity(contents, slot, self.volume.access()));
        }
        Ok(())
    }

    /// Makes an entry in another place that of this object, whose state the caller holds locked. The caller has locked the directories
    /// of both entries.
    pub(crate) fn relink(&self, state: &mut State, (parent, slot): (&Inode, u32)) {
        let before = state.link.as_ref().map(Link::default_number);
        let cluster = state.link.as_ref().map_or(0, |link| link.cluster);
        let link = Link { parent: parent.to_arc(), slot, cluster };
        self.volume.rebind(self.number, before, Some(link.default_number()));
        let left = self.set_link(state, Some(link));
        self.metadata_changed(state);
        if let Some(sidecar) = parent.lock_sidecar().as_mut() {
            sidecar.set(Owner::Slot(slot), Box::new(state.metadata.record(state.size, &self.volume.options)));
        }
        // The directory that the object was in is locked by the caller, which has a reference to it.
        drop(left);
    }
}

/// Makes an entry that of another object; its name stays.
pub(crate) fn copy_object(entry: &mut Entry, other: &Entry) {
    let (name, case) = (entry.name, entry.case);
    *entry = Entry { name, case, ..*other };
}
