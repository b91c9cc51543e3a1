//! The layer `readonly`: refuses operations that modify the file system.

use vnode::layer::{Layer, LayerVnode, Operation};
use vnode::{Caller, Errno, FileKind, Needs, Promises, Result};

use super::options::NAME;
use crate::ioctl;

/// Refuses every modification. Writes to sockets, FIFOs and devices pass through the file system rather than modify it,
/// so access to these stays.
#[derive(Debug)]
pub struct ReadOnly;

impl Layer for ReadOnly {
    type State = ();

    fn kind(&self) -> &'static str {
        NAME
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn needs(&self) -> Needs {
        Needs { read_only: true, ..Needs::NONE }
    }

    fn admit(&self, node: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Access(_) if is_special(node) => Ok(()),
            Operation::Ioctl { command } if ioctl::changes(*command) => Err(Errno::EROFS),
            _ if operation.modifies() => Err(Errno::EROFS),
            _ => Ok(()),
        }
    }
}

fn is_special(node: &LayerVnode<ReadOnly>) -> bool {
    !matches!(vnode::Vnode::kind(node), FileKind::Regular | FileKind::Directory | FileKind::Symlink)
}
