//! Trashfs renames what is deleted to a name with .deleted behind it. What has such a name already is deleted; where the
//! new name is taken, nothing is.

use vnode::layer::{Layer, LayerVnode};
use vnode::{Caller, Name, Needs, Promises, RenameMode, Result, VnodeRef};

/// What stands behind the names of what was deleted.
const DELETED: &[u8] = b".deleted";

/// Renames what is deleted.
pub struct Trashfs;

impl Layer for Trashfs {
    type State = ();

    fn kind(&self) -> &'static str {
        "trashfs"
    }

    fn promises(&self) -> Promises {
        Promises { exclusive: false, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, failed_lookups: true, ..Needs::NONE }
    }

    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        if name.as_bytes().len() > DELETED.len() && name.as_bytes().ends_with(DELETED) {
            return node.forward_unlink(caller, name);
        }
        let directory: VnodeRef = node.shared();
        let deleted = [name.as_bytes(), DELETED].concat();
        node.forward_rename(caller, name, &directory, Name::new(&deleted)?, RenameMode::NoReplace)
    }
}
