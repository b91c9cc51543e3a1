//! Lb2fs balances load: of two file systems with the same files each serves every other file that is opened. Where one
//! has become unreadable the other takes its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vnode::layer::{self, Layer, LayerFile, LayerVnode, Operation};
use vnode::{Caller, Entry, Errno, FileSystemRef, Name, Needs, OpenFileRef, OpenFlags, Promises, Result};

use super::branches::Branches;

/// Opens files in two branches in turn.
pub struct Lb2fs {
    branches: Branches,
    opened: AtomicUsize,
}

impl Lb2fs {
    /// The two joined.
    pub fn join(first: FileSystemRef, second: FileSystemRef) -> FileSystemRef {
        let branches = Branches([FileSystemRef::clone(&first), second]);
        layer::stack(Lb2fs { branches, opened: AtomicUsize::new(0) }, first)
    }
}

impl Layer for Lb2fs {
    type State = ();

    fn kind(&self) -> &'static str {
        "lb2fs"
    }

    fn promises(&self) -> Promises {
        Promises { shares_locks: false, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, failed_lookups: true, every_data_operation: true, read_only: true, ..Needs::NONE }
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        match operation {
            // A command that only reads says so in its first bits.
            Operation::Ioctl { command } if command >> 30 != 2 => Err(Errno::EROFS),
            _ if operation.modifies() => Err(Errno::EROFS),
            _ => Ok(()),
        }
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        match node.forward_lookup(caller, name) {
            Err(Errno::EIO) => {
                let Entry { vnode, attributes } = self.branches.part(1, node)?.lookup(caller, name)?;
                Ok(Entry { vnode: node.wrap(vnode), attributes })
            }
            found => found,
        }
    }

    fn open(&self, node: &LayerVnode<Self>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        let turn = self.opened.fetch_add(1, Ordering::Relaxed) % 2;
        let open = |branch| self.branches.part(branch, node)?.open(caller, flags);
        let lower = match open(turn) {
            Err(Errno::EIO | Errno::ENOENT) => open(1 - turn)?,
            opened => opened?,
        };
        Ok(Arc::new(LayerFile::new(node.shared(), lower, flags)))
    }
}
