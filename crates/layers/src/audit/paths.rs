//! Paths of what an operation is about, from the root of the stack.

use vnode::layer::{LayerVnode, Operation};
use vnode::{Name, Vnode};

use super::Audit;

/// The paths of one operation, as far as they can be known.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// Of the object, or of the name in the directory.
    pub(super) path: Option<Vec<u8>>,
    /// The new path of a rename, the linked file's of a link.
    pub(super) other: Option<Vec<u8>>,
}

impl Paths {
    /// Asks the file system below, which costs a system call or more.
    pub(super) fn of(node: &LayerVnode<Audit>, operation: &Operation<'_>) -> Self {
        let path = node.path().ok();
        let path = match operation.entry_name() {
            Some(name) => path.map(|path| join(&path, name)),
            None => path,
        };
        let other = match operation {
            Operation::Rename { to, to_name, .. } => to.path().ok().map(|path| join(&path, *to_name)),
            Operation::Link { target, .. } => target.path().ok(),
            _ => None,
        };
        Self { path, other }
    }
}

/// The path of a name in the directory with this path.
pub(super) fn join(directory: &[u8], name: Name<'_>) -> Vec<u8> {
    match directory {
        [] => name.as_bytes().to_vec(),
        _ => [directory, b"/", name.as_bytes()].concat(),
    }
}
