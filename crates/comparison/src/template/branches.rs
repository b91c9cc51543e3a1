//! The two file systems below of a layer that joins them.
//!
//! An object is known by that of the branch in which it was found, so both are to be directories on one file system, which
//! tells all their objects apart.

use vnode::layer::{Layer, LayerVnode};
use vnode::{Caller, Errno, FileSystemRef, Name, Result, Vnode, VnodeRef};

/// Two file systems.
pub(crate) struct Branches(pub [FileSystemRef; 2]);

impl Branches {
    /// What is in a branch where this object is in its own.
    pub(crate) fn part<L: Layer>(&self, branch: usize, node: &LayerVnode<L>) -> Result<VnodeRef> {
        let path = node.path()?;
        let mut part = self.0[branch].root();
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            part = part.lookup(&Caller::server(), Name::new(name)?)?.vnode;
        }
        if part.kind() == node.kind() { Ok(part) } else { Err(Errno::ENOENT) }
    }
}
