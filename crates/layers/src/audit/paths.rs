//! Paths of the objects of an operation, from the root of the stack.

use std::sync::{Mutex, PoisonError};

use vnode::layer::{Layer, LayerVnode, Operation};
use vnode::{Caller, Errno, FileKind, Name, NameBuf, Result, Vnode, VnodeRef};

/// Last known location of a file: the lower directory, and the name there. The lower file system may have forgotten it,
/// since it knows objects by handle and the kernel keeps names only as long as it likes. Boxed, since most stacks keep
/// millions of these empty.
#[derive(Default)]
pub struct LastLocation(Mutex<Option<Box<(VnodeRef, NameBuf)>>>);

impl LastLocation {
    /// Records that the name in the directory refers to the vnode, whether or not the vnode belongs to the layer.
    /// Directories need no record, since they are always found again.
    pub(crate) fn record<L>(vnode: &VnodeRef, directory: &LayerVnode<L>, name: Name<'_>)
    where
        L: Layer<State = Self>,
    {
        if vnode.kind() != FileKind::Directory
            && let Some(node) = vnode.as_any().downcast_ref::<LayerVnode<L>>()
        {
            *node.state().0.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Box::new((directory.lower().clone(), name.to_owned())));
        }
    }

    /// Returns the path of the node, if it is still at its last known location.
    fn path<L: Layer>(&self, node: &LayerVnode<L>) -> Option<Vec<u8>> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (directory, name) = *last?;
        let found = directory.lookup(&Caller::server(), name.as_name()).ok()?.vnode;
        if found.handle() != node.handle() {
            return None;
        }
        Some(join(&directory.path().ok()?, name.as_name()))
    }
}

/// Returns the path of a vnode, from the lower file system or from its last known location.
pub(crate) fn path_of<L: Layer<State = LastLocation>>(vnode: &dyn Vnode) -> Result<Vec<u8>> {
    match vnode.path() {
        Err(error) if error != Errno::ENOENT => {
            let node = vnode.as_any().downcast_ref::<LayerVnode<L>>();
            node.and_then(|node| node.state().path(node)).ok_or(error)
        }
        result => result,
    }
}

/// The paths of an operation, as far as they can be determined.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// Path of the object, or of the name in the directory.
    pub(crate) path: Option<Vec<u8>>,
    /// New path of a rename, or path of the linked file for a link.
    pub(crate) other: Option<Vec<u8>>,
}

impl Paths {
    /// Queries the lower file system, which costs a system call or more.
    pub(crate) fn of<L>(node: &LayerVnode<L>, operation: &Operation<'_>) -> Self
    where
        L: Layer<State = LastLocation>,
    {
        let path = path_of::<L>(node).ok();
        let path = match operation.entry_name() {
            Some(name) => path.map(|path| join(&path, name)),
            None => path,
        };
        let other = match operation {
            Operation::Rename { to, to_name, .. } => to.path().ok().map(|path| join(&path, *to_name)),
            Operation::Link { target, .. } => path_of::<L>(&***target).ok(),
            _ => None,
        };
        Self { path, other }
    }
}

/// Returns the path of a name in the directory with this path.
pub(crate) fn join(directory: &[u8], name: Name<'_>) -> Vec<u8> {
    match directory {
        [] => name.as_bytes().to_vec(),
        _ => [directory, b"/", name.as_bytes()].concat(),
    }
}
