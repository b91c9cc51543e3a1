//! Keepfs copies a file that is deleted to a hidden name: a file with several names keeps one copy of each.

use vnode::layer::{Layer, LayerVnode};
use vnode::{Caller, FileKind, Name, Needs, Promises, Result};

use super::copy::copy;

/// Copies what is deleted.
pub struct Keepfs;

impl Layer for Keepfs {
    type State = ();

    fn kind(&self) -> &'static str {
        "keepfs"
    }

    fn promises(&self) -> Promises {
        Promises { exclusive: false, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, failed_lookups: true, ..Needs::NONE }
    }

    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        let deleted = node.lower().lookup(&Caller::server(), name)?.vnode;
        if deleted.kind() == FileKind::Regular && !name.as_bytes().starts_with(b".") {
            copy(caller, &deleted, node.lower(), &[b".kept.", name.as_bytes()].concat())?;
        }
        node.forward_unlink(caller, name)
    }
}
