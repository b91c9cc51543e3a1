//! Open directories: entries in batches, with the cookies of the directory.

use std::ops::ControlFlow;
use std::sync::Arc;

use vnode::profile::Part;
use vnode::{Caller, Cookie, DirectoryEntry, Name, OpenDirectory, Result};

use super::KIND;
use super::directory::BATCH;
use super::inode::Inode;

/// A directory opened for reading.
pub(crate) struct MemoryDirectory {
    pub(crate) inode: Arc<Inode>,
}

impl Part for MemoryDirectory {
    const PART: &'static str = KIND;
}

impl OpenDirectory for MemoryDirectory {
    fn read(
        &self,
        _caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.inode.update_access_time();
        let mut position = cookie;
        loop {
            let batch = self.inode.read().directory()?.batch_after(position);
            for (cookie, listed) in &batch {
                let entry = DirectoryEntry {
                    name: Name::new(&listed.name)?,
                    ino: listed.number,
                    kind: Some(listed.kind),
                    cookie: *cookie,
                };
                if sink(entry).is_break() {
                    return Ok(());
                }
                position = *cookie;
            }
            if batch.len() < BATCH {
                return Ok(());
            }
        }
    }
}
