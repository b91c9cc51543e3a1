//! Open directories: entries in batches, by the slots that they have.

use std::ops::ControlFlow;
use std::sync::Arc;

use vnode::profile::Part;
use vnode::{Caller, Cookie, DirectoryEntry, FileKind, InodeNumber, Name, OpenDirectory, Result};

use crate::fat::sidecar::store::Owner;

use super::KIND;
use super::inode::{Inode, State};
use super::metadata::Metadata;

/// Number of entries copied at a time, so that no lock is held while the caller consumes them.
const BATCH: usize = 64;

/// A directory opened for reading.
pub(crate) struct FatDirectory {
    pub(crate) inode: Arc<Inode>,
}

/// An entry as a reader of the directory sees it.
struct ListedEntry {
    name: Vec<u8>,
    number: InodeNumber,
    kind: FileKind,
    cookie: Cookie,
}

impl Part for FatDirectory {
    const PART: &'static str = KIND;
}

impl OpenDirectory for FatDirectory {
    fn read(
        &self,
        _caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.inode.update_access_time();
        let mut slot = first_slot_after(cookie);
        loop {
            let batch = self.inode.batch_from(&*self.inode.read_loaded()?, slot)?;
            for listed in &batch {
                let entry = DirectoryEntry {
                    name: Name::new(&listed.name)?,
                    ino: listed.number,
                    kind: Some(listed.kind),
                    cookie: listed.cookie,
                };
                if sink(entry).is_break() {
                    return Ok(());
                }
                slot = first_slot_after(listed.cookie);
            }
            if batch.len() < BATCH {
                self.inode.volume.forget_contents();
                return Ok(());
            }
        }
    }

    fn fsync(&self, _caller: &Caller, _data_only: bool) -> Result<()> {
        self.inode.volume.synchronize()
    }
}

impl Inode {
    /// Returns some of the entries from a slot on; fewer than [`BATCH`] are the last.
    fn batch_from(&self, state: &State, slot: u32) -> Result<Vec<ListedEntry>> {
        let contents = state.contents()?;
        let listed = |slot: u32| {
            let entry = contents.entry(slot).filter(|_| !self.is_own_file(contents, slot))?;
            let store = || self.volume.store()?.listed_object(self.link_number(&entry)?);
            if let Some((number, kind)) = store() {
                return Some(ListedEntry { name: contents.shown_name(slot)?, number, kind, cookie: cookie_of(slot) });
            }
            let number = self.number_of(slot, &entry);
            let sidecar = self.lock_sidecar();
            let record = sidecar.as_ref().and_then(|sidecar| sidecar.record(Owner::Slot(slot)));
            let kind = Metadata::kind_of(&entry, record, &self.volume.entry_metadata);
            drop(sidecar);
            Some(ListedEntry { name: contents.shown_name(slot)?, number, kind, cookie: cookie_of(slot) })
        };
        Ok(contents.slots_from(slot).filter_map(listed).take(BATCH).collect())
    }
}

/// Returns the cookie of an entry.
fn cookie_of(slot: u32) -> Cookie {
    Cookie::new(Cookie::FIRST.get() + u64::from(slot))
}

/// Returns the first slot that may have an entry after a cookie.
fn first_slot_after(cookie: Cookie) -> u32 {
    let next = (cookie.get() + 1).saturating_sub(Cookie::FIRST.get());
    u32::try_from(next).unwrap_or(u32::MAX)
}
