//! A directory that the fork has moved to another of the file systems below the forked one: all its contents are copied to the
//! branch of changes, so that it is committed as a new one.

use std::sync::Arc;

use vnode::{Caller, FileKind, Name, Result, VnodeRef};

use super::names;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::objects;
use crate::union::branch::whiteout;
use crate::union::copy_up::extent::DataExtent;
use crate::union::state::{Node, Union};

/// Copies the lower part of the directory at this user-visible path; returns whether it was a moved one.
pub(crate) fn copy_lower_part(union: &Arc<Union>, upper: &Arc<BranchMember>, path: &[u8]) -> Result<bool> {
    let server = Caller::server();
    let moved = union.node_at_path(path)?;
    let Some(directory) = moved.instance_in(upper).filter(|_| moved.kind == FileKind::Directory) else {
        return Ok(false);
    };
    if !whiteout::has_redirect(&directory)? {
        return Ok(false);
    }
    let mut open = vec![moved];
    while let Some(node) = open.pop() {
        let located = node.ensure_directory_in(&server, upper)?;
        let vnode = Arc::clone(&node) as VnodeRef;
        for (name, _) in objects::entries(&vnode)? {
            let entry = vnode.lookup(&server, name.as_name())?;
            let Some(inner) = entry.vnode.as_any().downcast_ref::<Node>().map(Node::reference) else { continue };
            if inner.kind == FileKind::Directory {
                inner.ensure_directory_in(&server, upper)?;
                open.push(inner);
            } else {
                inner.writable(&server, DataExtent::All)?;
                // A copy that another name leads to has to get this name too.
                names::link_up_name(&node, name.as_name(), upper)?;
            }
            // Checks that nothing is missing.
            located.lookup(&server, Name::new(&whiteout::stored_name(name.as_name())?)?)?;
        }
    }
    // Until here the lower part was visible where it is; from here on, the copies are.
    whiteout::set_opaque(&directory, whiteout::WhiteoutFormat::Overlay)?;
    whiteout::remove_redirect(&directory)?;
    Ok(true)
}
