//! Quotafs refuses to let the files of a user grow by more than so many bytes while it is mounted; what shrinks, or is
//! deleted, counts back. The superuser is free. It counts
//! writing, cutting and deleting, and not all ways to grow, as the description does.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use vnode::layer::{Layer, LayerFile, LayerVnode};
use vnode::{Attributes, Caller, Errno, FileKind, Name, Needs, Promises, Result, SetAttributes};

/// Counts what files grow by.
pub struct Quotafs {
    limit: i64,
    /// By user.
    grown: Mutex<HashMap<u32, i64>>,
}

impl Quotafs {
    /// The layer that lets the files of a user grow by `limit` bytes.
    pub fn new(limit: i64) -> Self {
        Quotafs { limit, grown: Mutex::default() }
    }

    /// Counts that a user's files change their size by so much.
    fn count(&self, user: u32, more: i64) -> Result<()> {
        let mut grown = self.grown.lock().unwrap_or_else(PoisonError::into_inner);
        let grown = grown.entry(user).or_default();
        if user != 0 && more > 0 && *grown + more > self.limit {
            return Err(Errno::EDQUOT);
        }
        *grown += more;
        Ok(())
    }

    /// Does what gives a file another size, and counts it for the owner.
    fn resize<T>(&self, old: Attributes, size: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let more = size as i64 - old.size as i64;
        self.count(old.uid, more)?;
        work().or_else(|error| self.count(old.uid, -more).and(Err(error)))
    }
}

impl Layer for Quotafs {
    type State = ();

    fn kind(&self) -> &'static str {
        "quotafs"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn needs(&self) -> Needs {
        Needs { every_data_operation: true, ..Needs::NONE }
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let size = file.forward_getattr(&Caller::server())?.size;
        let start = if file.flags().appends() { size } else { offset };
        let grown = |length: usize| (start + length as u64).saturating_sub(size) as i64;
        self.count(caller.uid, grown(data.len()))?;
        let written = file.forward_write_at(caller, offset, data);
        // What could not be written did not grow.
        let done = written.map_or(0, grown);
        self.count(caller.uid, done - grown(data.len()))?;
        written
    }

    fn truncate(&self, file: &LayerFile<Self>, caller: &Caller, size: u64) -> Result<()> {
        let old = file.forward_getattr(&Caller::server())?;
        self.resize(old, size, || file.forward_truncate(caller, size))
    }

    fn setattr(&self, node: &LayerVnode<Self>, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let Some(size) = changes.size else { return node.forward_setattr(caller, changes) };
        let old = node.forward_getattr(&Caller::server())?;
        self.resize(old, size, || node.forward_setattr(caller, changes))
    }

    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        let old = node.lower().lookup(&Caller::server(), name)?.attributes;
        node.forward_unlink(caller, name)?;
        if old.kind == FileKind::Regular && old.nlink == 1 {
            self.count(old.uid, -(old.size as i64))?;
        }
        Ok(())
    }
}
