//! Keepfs copies a file that is deleted to a hidden name: a file with several names keeps one copy of each.

use vnode::layer::{Layer, LayerVnode};
use vnode::{Caller, FileKind, Name, Properties, Result};

use super::copy::copy;

/// Copies what is deleted.
pub struct Keepfs;

impl Layer for Keepfs {
    type State = ();

    fn kind(&self) -> &'static str {
        "keepfs"
    }

    fn properties(&self) -> Properties {
        Properties { exclusive: false, needs_every_lookup: true, needs_failed_lookups: true, ..Properties::TRANSPARENT }
    }

    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        let deleted = node.lower().lookup(&Caller::server(), name)?.vnode;
        if deleted.kind() == FileKind::Regular && !name.as_bytes().starts_with(b".") {
            copy(caller, &deleted, node.lower(), &[b".kept.", name.as_bytes()].concat())?;
        }
        node.forward_unlink(caller, name)
    }
}
