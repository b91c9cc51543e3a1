//! A vnode that has only an identity, for tests of tables.

use std::any::Any;
use std::sync::Arc;
use vnode::{AccessMode, Attributes, Caller, Errno, FileKind, Handle, Result, StatFs, Vnode, VnodeRef};

struct Numbered(u64);

/// Returns the vnode with this number.
pub(crate) fn vnode(number: u64) -> VnodeRef {
    Arc::new(Numbered(number))
}

impl Vnode for Numbered {
    fn handle(&self) -> Handle {
        Handle::new(&self.0.to_le_bytes()).expect("eight bytes fit")
    }

    fn kind(&self) -> FileKind {
        FileKind::Directory
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
        Err(Errno::ESTALE)
    }

    fn access(&self, _caller: &Caller, _mode: AccessMode) -> Result<()> {
        Ok(())
    }

    fn statfs(&self, _caller: &Caller) -> Result<StatFs> {
        Ok(StatFs::default())
    }
}
